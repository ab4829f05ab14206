// PRIVATE to tests. A small model, exported as a bundle for the CPU engine, and the trainer's own
// decoder with the same weights.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/export/export.h"
#include "formats/ops/sample/make_model.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/formats/scratch.h"
#include "tests/formats/words.h"
#include "trainer/comm/comm.h"
#include "trainer/model/decoder.h"
#include "trainer/model/memory.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

inline std::string Text(const Status& status) {
  return status.ok() ? "ok" : status.error().ToString();
}
template <typename T>
std::string Text(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().ToString();
}

struct BundleShape {
  int64_t tp = 1;
  int64_t batch_size = 4;
  int64_t seq_len = 64;
  Dtype dtype = Dtype::kF32;
  rollout::Flavor flavor = rollout::Flavor::kOptimum;
  bool cpu = true;
};

class RolloutLab {
 public:
  explicit RolloutLab(const testing_util::TinyModel& tiny) : tiny_(tiny) {
    model_ = folder_.Path("model");
    ops::MakeModelRequest request;
    request.config = folder_.Write("config.json", tiny.Config());
    request.output = model_ + "-flat";
    request.dtype = Dtype::kF32;
    EXPECT_TRUE(ops::MakeModel(request).ok());
    Enlarge();
  }

  const std::string& model() const { return model_; }
  std::string Path(const std::string& name) const { return folder_.Path(name); }
  std::string Write(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }
  int64_t vocab() const { return tiny_.vocab; }
  const DecoderConfig& config() const { return config_; }

  // A bundle of the model, or of another one of the same kind.
  std::string Bundle(const BundleShape& shape, const std::string& name = "bundle",
                     const std::string& model = "") const {
    ops::ExportRequest request;
    request.convert.from = &ops::kHf;
    request.convert.to = &ops::kRollout;
    request.convert.input = model.empty() ? model_ : model;
    request.convert.output = folder_.Path(name);
    request.convert.sync = false;
    request.convert.options.Set("tp", static_cast<int>(shape.tp));
    request.convert.options.Set("bs", shape.batch_size);
    request.convert.options.Set("seq", shape.seq_len);
    request.convert.options.dtype = shape.dtype;
    request.convert.options.Set("flavor", Word(shape.flavor));
    request.cpu = shape.cpu;
    request.no_blob = !shape.cpu;
    request.cache.enabled = false;
    const auto report = ops::Export(request);
    EXPECT_TRUE(report.ok()) << Text(report);
    return request.convert.output;
  }

  // Log-probabilities of the response's tokens after the prompt, by the trainer's decoder.
  std::vector<float> DecoderLogProbs(const std::vector<int32_t>& prompt,
                                     const std::vector<int32_t>& response, float temperature,
                                     Dtype dtype = Dtype::kF32) const {
    Batch batch = Packed(prompt, response);
    for (size_t i = 0; i < response.size(); ++i)
      batch.targets.push_back({static_cast<int32_t>(prompt.size() + i) - 1, response[i]});
    return Run(batch, temperature, dtype);
  }

  // The same for every token of the vocabulary as the next one.
  std::vector<float> NextLogProbs(const std::vector<int32_t>& tokens) const {
    Batch batch = Packed(tokens, {});
    for (int32_t id = 0; id < vocab(); ++id)
      batch.targets.push_back({static_cast<int32_t>(tokens.size()) - 1, id});
    return Run(batch, 1, Dtype::kF32);
  }

 private:
  static Batch Packed(const std::vector<int32_t>& prompt, const std::vector<int32_t>& response) {
    Batch batch;
    batch.ids = prompt;
    batch.ids.insert(batch.ids.end(), response.begin(), response.end());
    for (size_t i = 0; i < batch.ids.size(); ++i)
      batch.positions.push_back(static_cast<int32_t>(i));
    batch.starts = {0, static_cast<int32_t>(batch.ids.size())};
    return batch;
  }

  std::vector<float> Run(const Batch& batch, float temperature, Dtype dtype) const {
    std::vector<float> out(batch.targets.size());
    const Status status = ThreadWorld(1).Run([&](Comm& world) -> Status {
      NXDKIT_ASSIGN(Decoder decoder, Decoder::Make(config_, {.compute = dtype}, world));
      NXDKIT_TRY(LoadWeights(source_, config_.model,
                             {{&decoder.table(), decoder.weights().bytes(), dtype}}, {}));
      decoder.weights().Changed();
      return decoder.Forward(batch, temperature, false, out, nullptr);
    });
    EXPECT_TRUE(status.ok()) << Text(status);
    return out;
  }

  // Generated matrices are so small that every distribution is flat: these are 8 times as large.
  void Enlarge() {
    auto config = ParseDecoderConfig(tiny_.Config(), "config.json");
    EXPECT_TRUE(config.ok()) << Text(config);
    config_ = *std::move(config);
    std::filesystem::copy(model_ + "-flat", model_, std::filesystem::copy_options::recursive);
    const std::string path = model_ + "/model.safetensors";
    auto source = ops::OpenAndBind(model_, &ops::kHf, {});
    ASSERT_TRUE(source.ok()) << Text(source);
    std::string bytes = testing_util::ReadBytes(path);
    for (const StoredTensor& tensor : source->bound.stored) {
      if (tensor.shape.size() != 2) continue;
      const size_t size = static_cast<size_t>(tensor.shape[0] * tensor.shape[1]);
      for (size_t i = 0; i < size; ++i) {
        char* at = bytes.data() + tensor.storage->file_offset() + tensor.offset + i * 4;
        float value;
        std::memcpy(&value, at, 4);
        value *= 8;
        std::memcpy(at, &value, 4);
      }
    }
    folder_.Write("model/model.safetensors", bytes);
    auto enlarged = ops::OpenAndBind(model_, &ops::kHf, {});
    ASSERT_TRUE(enlarged.ok()) << Text(enlarged);
    source_ = *std::move(enlarged);
  }

  const testing_util::TinyModel tiny_;
  const testing_util::Scratch folder_;
  std::string model_;
  DecoderConfig config_;
  ops::BoundArtifact source_;
};

// Prompts of different lengths; some begin alike.
inline std::vector<RolloutRequest> SampleRequests(int prompts, int samples,
                                                  const SamplingParams& sampling,
                                                  int64_t vocab = 64) {
  std::vector<RolloutRequest> requests;
  for (int p = 0; p < prompts; ++p)
    for (int s = 0; s < samples; ++s) {
      RolloutRequest request;
      for (int i = 0; i < 3 + p * 5 % 17; ++i)
        request.prompt.push_back(
            static_cast<int32_t>((i < 3 ? i * 11 + 2 : i * i * 7 + 3 * p + i) % vocab));
      request.sampling = sampling;
      request.seed = 7;
      request.step = 3;
      request.prompt_index = static_cast<uint32_t>(p);
      request.sample_index = static_cast<uint32_t>(s);
      requests.push_back(request);
    }
  return requests;
}

}  // namespace nxdkit::trainer
