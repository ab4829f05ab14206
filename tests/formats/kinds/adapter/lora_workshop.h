// PRIVATE to tests. Small LoRA adapters with numbers of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "formats/kinds/adapter.h"
#include "formats/safetensors/encoder.h"
#include "lib/json/json.h"
#include "tests/formats/ops/inspect/inputs.h"
#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit::testing_util {

// Values that differ from each other and are exact in BF16.
inline std::vector<float> SomeValues(size_t count, int seed) {
  std::vector<float> values(count);
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state >> 24) - 128) / 64.0F;
  }
  return values;
}

struct LoraTensor {
  Shape shape;
  std::vector<float> values;
};

inline const StoredTensor& Find(const artifact::BoundArtifact& artifact, const std::string& name) {
  for (const StoredTensor& stored : artifact.bound.stored)
    if (stored.name == name) return stored;
  ADD_FAILURE() << "no tensor " << name;
  return artifact.bound.stored.front();
}

inline std::vector<float> Read(const StoredTensor& stored, int64_t first, int64_t count) {
  const auto width = static_cast<uint64_t>(ElementBytes(stored.dtype));
  std::vector<std::byte> raw(static_cast<size_t>(count) * width);
  EXPECT_TRUE(
      stored.storage->ReadAt(stored.offset + static_cast<uint64_t>(first) * width, raw).ok());
  std::vector<float> values(static_cast<size_t>(count));
  ConvertElements(stored.dtype, raw.data(), Dtype::kF32,
                  reinterpret_cast<std::byte*>(values.data()), count);
  return values;
}

// W + scale * B A, in the order given in FORMAT.md.
inline std::vector<float> Expected(const std::vector<float>& weight, const LoraTensor& a,
                                   const LoraTensor& b, float scale) {
  const int64_t rank = a.shape[0], in = a.shape[1], out = b.shape[0];
  std::vector<float> sum(weight);
  for (int64_t i = 0; i < out; ++i)
    for (int64_t j = 0; j < in; ++j) {
      volatile float product = 0;  // volatile: rounded at every step
      for (int64_t k = 0; k < rank; ++k) {
        volatile float term =
            b.values[static_cast<size_t>(i * rank + k)] * a.values[static_cast<size_t>(k * in + j)];
        product = product + term;
      }
      volatile float scaled = scale * product;
      sum[static_cast<size_t>(i * in + j)] += scaled;
    }
  return sum;
}

// An adapter in PEFT's form, to be changed before it is written.
struct PeftFiles {
  std::map<std::string, LoraTensor> tensors;
  Json config = {{"peft_type", "LORA"},
                 {"r", 4},
                 {"lora_alpha", 6},
                 {"bias", "none"},
                 {"target_modules", Json::array()}};

  // A pair for each weight of `layers` layers with a name that ends in `module`.
  void Add(const std::string& module, int64_t layers, int64_t out, int64_t in, int64_t rank = 4) {
    const size_t dot = module.rfind('.');
    config["target_modules"].push_back(module.substr(dot + 1));
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string name =
          "base_model.model.model.layers." + std::to_string(layer) + "." + module;
      AddPair(name, out, in, rank);
    }
  }
  void AddPair(const std::string& name, int64_t out, int64_t in, int64_t rank) {
    const int seed = static_cast<int>(tensors.size());
    tensors[name + ".lora_A.weight"] = {{rank, in},
                                        SomeValues(static_cast<size_t>(rank * in), seed)};
    tensors[name + ".lora_B.weight"] = {{out, rank},
                                        SomeValues(static_cast<size_t>(out * rank), seed + 1)};
  }

  std::string Bytes() const {
    std::vector<OutputTensor> outputs;
    for (const auto& [name, tensor] : tensors) outputs.push_back({name, Dtype::kF32, tensor.shape});
    const auto encoder = safetensors::Encode(std::move(outputs), {});
    EXPECT_TRUE(encoder.ok()) << encoder.error().ToString();
    return FileBytes(**encoder, [&](size_t i) {
      const LoraTensor& tensor = tensors.at((*encoder)->tensors()[i].name);
      std::string bytes(tensor.values.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), tensor.values.data(), bytes.size());
      return bytes;
    });
  }

  // The folder's path.
  std::string Write(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    WriteText(folder + "/adapter_model.safetensors", Bytes());
    WriteText(folder + "/adapter_config.json", config.dump(2));
    return folder;
  }

  static void WriteText(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    EXPECT_TRUE(out.flush()) << path;
  }
};

}  // namespace nxdkit::testing_util
