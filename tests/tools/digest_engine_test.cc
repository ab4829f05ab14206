// ckpt-digest --as vllm, on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class DigestEngine : public ::testing::Test {
 protected:
  static ProcessResult Digest(const std::string& options, const std::string& path) {
    Words words = {Workshop::Tool("ckpt-digest")};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(path);
    return RunProcess(words);
  }
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(DigestEngine, PrintsALineForEachParameterOfEachRank) {
  const ProcessResult text = Digest("--as vllm --tp 2", model_);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  dp0:pp0:pcp0:tp1:model.layers.3.mlp.gate_up_proj.weight\n"));
  const ProcessResult result = Digest("--as vllm --tp 2 --json", model_);
  const Json json = Json::parse(result.out);
  EXPECT_THAT(Schemas(NXDKIT_SOURCE_DIR "/tools/schemas").Faults("ckpt-digest.json", json),
              ::testing::IsEmpty());
  // For each rank: embedding, norm and head; for a layer 2 norms, qkv, o, gate_up and down.
  EXPECT_EQ(json["checksums"].size(), 2u * (3 + 4 * 6));
  EXPECT_EQ(json["tp"], 2);
  for (const auto& [key, digest] : json["checksums"].items())
    EXPECT_THAT(text.out, HasSubstr(digest.get<std::string>() + "  " + key + "\n"));
}

// --tp is the engine's; that of a set is detected.
TEST_F(DigestEngine, IsTheSameFromEveryLayout) {
  const ProcessResult first = Digest("--as vllm --tp 4", model_);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  for (const char* options : {"--from hf --to nxd --tp 2", "--from hf --to nxd --tp 2 --xser",
                              "--from hf --to rollout --tp 3"}) {
    const std::string other = workshop_ / "other";
    std::filesystem::remove_all(other);
    ExpectConverts(options, model_, other);
    EXPECT_EQ(Digest("--as vllm --tp 4", other).out, first.out) << options;
  }
}

// A delta on its base, before anything is written.
TEST_F(DigestEngine, IsThatOfADeltasResult) {
  const std::string next = workshop_.MakeModel("next", testing_util::TinyLlama(), "--seed 7");
  const std::string delta = workshop_ / "delta";
  ExpectConverts("--from hf --to delta --base " + model_, next, delta);
  for (const char* options : {"--as vllm --tp 2", ""}) {
    const ProcessResult whole = Digest(options, next);
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_EQ(Digest(std::string(options) + " --base " + model_, delta).out, whole.out);
  }
  EXPECT_EQ(Digest("--as vllm", delta).exit_code, 2);
}

TEST_F(DigestEngine, RefusesWhatAnEngineRefuses) {
  const ProcessResult sizes = Digest("--as vllm --tp 3", model_);
  EXPECT_EQ(sizes.exit_code, 4);
  EXPECT_THAT(sizes.err, HasSubstr("cannot be split over tp 3, which vLLM requires"));
  EXPECT_EQ(Digest("--as vllm --tensors", model_).exit_code, 2);
  EXPECT_EQ(Digest("--enable-expert-parallel", model_).exit_code, 2);
  EXPECT_EQ(Digest("--as sglang", model_).exit_code, 2);
}

}  // namespace
}  // namespace nxdkit::test
