// The decoder compared with transformers' results for the models in testdata/decoder (make.py
// there): the distribution at one position, log-probabilities, entropies, and every gradient.
// tests/interop compares more models with transformers itself, and these files too.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/safetensors/safetensors.h"
#include "lib/system/file.h"
#include "tests/trainer/model/batch_json.h"
#include "tests/trainer/model/expect_close.h"

namespace nxdkit::trainer {
namespace {

Outcome ReadOutcome(const std::string& path) {
  Outcome outcome;
  const Result<TensorFile> file = safetensors::Open(path);
  EXPECT_TRUE(file.ok()) << file.error().ToString();
  if (!file.ok()) return outcome;
  for (const StoredTensor& tensor : file->tensors) {
    EXPECT_EQ(tensor.dtype, Dtype::kF32) << tensor.name;
    Floats values(static_cast<size_t>(*ElementCount(tensor.shape)));
    EXPECT_TRUE(
        tensor.storage->ReadAt(tensor.offset, std::as_writable_bytes(std::span(values))).ok());
    if (tensor.name == "log_probs")
      outcome.log_probs = values;
    else if (tensor.name == "entropies")
      outcome.entropies = values;
    else
      outcome.gradients[tensor.name] = values;
  }
  return outcome;
}

class DecoderGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(DecoderGolden, IsWhatTransformersSays) {
  const std::string folder = std::string(NXDKIT_TESTDATA "/decoder/") + GetParam();
  const Result<std::string> text = ReadSmallFile(folder + "/batch.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.error().ToString();
  const auto json = nlohmann::json::parse(*text);
  const Outcome expected = ReadOutcome(folder + "/expected.safetensors");
  const ModelLab lab(folder);
  for (const int tp : {1, 2, 4}) {
    SCOPED_TRACE(tp);
    const Outcome found = lab.Run(tp, {}, {ReadBatch(json)}, {json.at("gradient").get<Floats>()},
                                  json.at("temperature").get<float>());
    ExpectSameOutcome(found, expected, 1e-4f);  // the bound of the whole trainer, in f32
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderGolden,
                         ::testing::Values("llama", "qwen2", "qwen3", "llama_biased",
                                           "qwen3_windowed"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace nxdkit::trainer
