// ckpt-verify --for vllm-neuron, ckpt-digest --as vllm-neuron and nxd-convert --to nkipy, on the
// command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ServeTool : public ::testing::Test {
 protected:
  static ProcessResult Run(const std::string& tool, const std::string& options,
                           const std::string& path) {
    Words words = {Workshop::Tool(tool), path};
    for (const std::string& word : Split(options)) words.push_back(word);
    return RunProcess(words);
  }
  static Json RunJson(const std::string& tool, const std::string& options,
                      const std::string& path) {
    const ProcessResult result = Run(tool, options + " --json", path);
    Json json = Json::parse(result.out);
    EXPECT_THAT(Schemas(NXDKIT_SOURCE_DIR "/tools/schemas").Faults(tool + ".json", json),
                IsEmpty());
    return json;
  }
  const Workshop workshop_;
  // 8 query and 2 key heads, vocabulary 64.
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

constexpr const char* kDerived = "# derived from the sources of vLLM Neuron 0.24, not run";

TEST_F(ServeTool, AFolderThatFitsIsServed) {
  const ProcessResult text = Run("ckpt-verify", "--for vllm-neuron --tp 4", model_);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith(kDerived));
  EXPECT_THAT(text.out,
              HasSubstr(model_ + ": vLLM Neuron's loader takes the weights on 4 cores, BF16; KV "
                                 "cache and compiled graphs were not judged\n"));
  const Json json = RunJson("ckpt-verify", "--for vllm-neuron --tp 4 --target trn3", model_);
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["serving"]["tp"], 4);
  EXPECT_EQ(json["serving"]["target"], "trn3");
  EXPECT_EQ(json["serving"]["parameters"].size(), 2u + 4 * 7 + 1);
  EXPECT_EQ(json["serving"]["parameters"][1]["name"], "model.layers.0.self_attn.qkv_proj_weight");
}

TEST_F(ServeTool, OneThatDoesNotEndsWithFindings) {
  const ProcessResult text = Run("ckpt-verify", "--for vllm-neuron --tp 3", model_);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("WRONG: "));
  EXPECT_THAT(text.out, HasSubstr("8 query heads cannot be split over tp 3"));
  const Json json = RunJson("ckpt-verify", "--for vllm-neuron --tp 3", model_);
  EXPECT_EQ(json["findings"][0]["check"], "heads");
}

// The vendor's own example has one on each core.
TEST_F(ServeTool, AnOddNumberOfQueryHeadsIsAWarning) {
  const ProcessResult text = Run("ckpt-verify", "--for vllm-neuron --tp 8", model_);
  EXPECT_EQ(text.exit_code, 0) << text.out;
  EXPECT_THAT(text.err, HasSubstr("1 query head on each core (8 over tp 8)"));
}

TEST_F(ServeTool, DigestsAreMarkedAsDerived) {
  const ProcessResult text = Run("ckpt-digest", "--as vllm-neuron --tp 2", model_);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith(kDerived));
  EXPECT_THAT(text.out, HasSubstr("  dp0:tp1:model.layers.3.self_attn.qkv_proj_weight\n"));
  const Json json = RunJson("ckpt-digest", "--as vllm-neuron --tp 2 --attention-dp 2", model_);
  EXPECT_THAT(json["derived"].get<std::string>(), HasSubstr("not run"));
  EXPECT_EQ(json["attention_dp"], 2);
  EXPECT_EQ(json["checksums"].size(), 4u * (3 + 4 * 7));
}

// --tp is the engine's, whatever the layout of the input.
TEST_F(ServeTool, DigestsAreTheSameFromEveryLayout) {
  const ProcessResult first = Run("ckpt-digest", "--as vllm-neuron --tp 4", model_);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  for (const char* options : {"--from hf --to nxd --tp 2", "--from hf --to rollout --tp 3",
                              "--from hf --to nkipy --tp 2"}) {
    const std::string other = workshop_ / "other";
    std::filesystem::remove_all(other);
    ExpectConverts(options, model_, other);
    EXPECT_EQ(Run("ckpt-digest", "--as vllm-neuron --tp 4", other).out, first.out) << options;
  }
}

struct Misuse {
  const char* tool;
  const char* options;
  int exit_code;
  const char* message;
};

TEST_F(ServeTool, WordsThatDoNotGoTogetherAreRefused) {
  const Misuse rows[] = {
      {"ckpt-verify", "--for vllm-neuron", 2, "--for needs --tp"},
      {"ckpt-verify", "--target trn2", 2, "--target applies to an engine"},
      {"ckpt-verify", "--attention-dp 2", 2, "--attention-dp applies to an engine"},
      {"ckpt-verify", "--for vllm-neuron --tp 2 --engine http://x", 2, "different questions"},
      {"ckpt-verify", "--for vllm-neuron --tp 2 --from nxd", 2, "PATH is a Hugging Face folder"},
      {"ckpt-verify", "--for vllm-neuron --tp 2 --hw trn2", 2, "and this is hf"},
      {"ckpt-digest", "--attention-dp 2", 2, "give --as vllm-neuron"},
      {"ckpt-digest", "--as vllm --attention-dp 2", 2, "give --as vllm-neuron"},
      {"ckpt-digest", "--as vllm-neuron --enable-expert-parallel", 2, "give --ep"},
      {"ckpt-digest", "--as vllm-neuron --tp 3", 4, "8 query heads cannot be split over tp 3"},
  };
  for (const Misuse& row : rows) {
    const ProcessResult result = Run(row.tool, row.options, model_);
    EXPECT_EQ(result.exit_code, row.exit_code) << row.options << result.out;
    EXPECT_THAT(result.err, HasSubstr(row.message)) << row.options;
  }
}

TEST_F(ServeTool, RankFilesOfNkipyAreAnOutput) {
  const std::string files = workshop_ / "files";
  ExpectConverts("--to nkipy --tp 2 --tok-embedding whole --digest", model_, files);
  EXPECT_TRUE(std::filesystem::exists(files + "/shard_1.safetensors"));
  const Json record = Json::parse(ReadFile(files + "/nxdkit.json"));
  EXPECT_EQ(record["tok_embedding"], "whole");
  ASSERT_EQ(record["files"].size(), 2u);
  EXPECT_EQ(record["files"][1]["name"], "shard_1.safetensors");
  EXPECT_EQ(record["files"][1]["bytes"],
            std::filesystem::file_size(files + "/shard_1.safetensors"));
  EXPECT_THAT(record["layout_is"].get<std::string>(), HasSubstr("not run"));
  const std::string digest = Run("ckpt-digest", "", model_).out;
  EXPECT_EQ(Run("ckpt-digest", "", files).out, digest);
  EXPECT_EQ(record["source_digest"].get<std::string>() + "\n", digest);
  EXPECT_EQ(RunJson("ckpt-inspect", "", files)["format"], "nkipy");
  EXPECT_EQ(Run("ckpt-verify", "--against " + model_, files).exit_code, 0);
}

}  // namespace
}  // namespace nxdkit::test
