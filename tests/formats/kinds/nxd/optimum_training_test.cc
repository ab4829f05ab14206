// optimum-neuron's training checkpoints: checkpoint-N/shards with its metadata, read, verified and
// converted; and metadata of another set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/open.h"
#include "lib/json/json.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Finding;
using ops::Kind;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::FindingsOf;
using testing_util::OpsWorkshop;

// 8 query and 2 key heads over 4 ranks: each key head is stored twice, tiled.
class OptimumTraining : public ::testing::Test {
 protected:
  OptimumTraining() {
    ops::OutputOptions options;
    options.Set("tp", 4);
    options.Set("hw", Word(models::Hardware::kTrn1));
    options.Set("qkv", Word(nxd::QkvStyle::kLinear));
    options.Set("xser", true);
    workshop_.Make("checkpoint-10/shards", llama_, &ops::kHf, &ops::kNxd, options);
    std::filesystem::remove(shards_ + "/nxdkit.json");
    std::filesystem::rename(shards_ + "/config.json", root_ + "/config.json");
    metadata_ = MakeMetadata();
    Write();
  }

  void Write() const {
    std::ofstream(shards_ + "/mp_metadata_pp_rank_0.json") << metadata_.dump(2);
  }

  Json MakeMetadata() const {
    const std::map<std::string, int> dims = {{"embed_tokens", 0}, {"lm_head", 0},  {"weight_q", 0},
                                             {"weight_k", 0},     {"weight_v", 0}, {"o_proj", 1},
                                             {"gate_up_proj", 0}, {"down_proj", 1}};
    Json parameters = Json::object();
    for (const auto& stored : testing_util::StoredTensors(root_, &ops::kNxd)) {
      Json& entry = parameters[stored.tensor.name] = {{"tensor_model_parallel", false}};
      for (const auto& [part, dim] : dims)
        if (stored.tensor.name.find(part) != std::string::npos)
          entry = {{"tensor_model_parallel", true},
                   {"partition_dim", dim},
                   {"partition_stride", 1},
                   {"num_partitions", 4}};
    }
    const Json gqa = {{"num_attention_heads", 8},
                      {"num_key_value_heads", 2},
                      {"kv_size_multiplier", 2},
                      {"fuse_qkv", false},
                      {"tp_size", 4},
                      {"bias", false}};
    Json module = {{"module_fully_qualified_name", "model.layers.0.self_attn"}};
    module["specs"][0][0] = "GQAQKVColumnParallelLinearSpec";
    module["specs"][0][1] = gqa;
    Json metadata = Json::object();
    metadata["parameters"] = parameters;
    metadata["model_weight_transformation_specs"][0] = module;
    return metadata;
  }

  Json& Gqa() { return metadata_["model_weight_transformation_specs"][0]["specs"][0][1]; }

  const OpsWorkshop workshop_;
  const std::string llama_ = workshop_.MakeModel("llama", testing_util::TinyLlama());
  const std::string root_ = workshop_ / "checkpoint-10";
  const std::string shards_ = root_ + "/shards";
  Json metadata_;
};

// Key heads are tiled: without the metadata nothing shows whether the set is for trn1.
TEST_F(OptimumTraining, NeedsNoOptions) {
  const auto bound = ops::OpenAndBind(root_, &ops::kNxd, {});
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_EQ(ops::NxdLayoutOf(*bound)->geometry.kv_multiplier, 2);
  EXPECT_EQ(ops::NxdLayoutOf(*bound)->geometry.hardware, models::Hardware::kTrn1);
  EXPECT_TRUE(FindingsOf(root_).empty());
  EXPECT_TRUE(FindingsOf(root_, llama_).empty());
  const std::string back = workshop_.Make("back", root_, &ops::kNxd, &ops::kHf);
  EXPECT_TRUE(FindingsOf(back, llama_).empty());
  std::filesystem::remove(shards_ + "/mp_metadata_pp_rank_0.json");
  ExpectError(ops::OpenAndBind(root_, &ops::kNxd, {}), Errc::kUsage,
              "key heads are stored 2 times, tiled over the ranks");
}

TEST_F(OptimumTraining, SaysThatTheMetadataIsNotWritten) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  const auto report =
      ops::DryRun(OpsWorkshop::Request(root_, &ops::kNxd, workshop_ / "out", &ops::kNxd, options));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_THAT(report->notes, ::testing::Contains(HasSubstr("mp_metadata_pp_rank_*.json is not "
                                                           "written")));
}

TEST_F(OptimumTraining, ATensorRecordedOtherwiseIsFound) {
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  metadata_["parameters"][down]["partition_dim"] = 0;
  metadata_["parameters"]["model.layers.0.self_attn.o_proj.weight"] = {
      {"tensor_model_parallel", false}};
  metadata_["parameters"]["lm_head.weight"]["num_partitions"] = 8;
  metadata_["parameters"]["model.extra.weight"] = {{"tensor_model_parallel", false}};
  Write();
  std::map<std::string, std::string> messages;
  for (const Finding& finding : FindingsOf(root_)) {
    EXPECT_EQ(finding.check, "record");
    EXPECT_THAT(finding.file, HasSubstr("mp_metadata_pp_rank_0.json"));
    messages[finding.tensor] = finding.message;
  }
  EXPECT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[down], "recorded as cut along dimension 0, but it is cut along 1");
  EXPECT_EQ(messages["model.layers.0.self_attn.o_proj.weight"],
            "recorded as whole on every rank, but it is cut along dimension 1");
  EXPECT_EQ(messages["lm_head.weight"], "recorded in 8 parts, the set has 4 tensor parallel ranks");
  EXPECT_THAT(messages["model.extra.weight"], HasSubstr("recorded, but not stored in"));
}

TEST_F(OptimumTraining, MetadataOfAnotherModelIsRefused) {
  Gqa()["num_attention_heads"] = 16;
  Write();
  const auto heads = ExpectError(ops::OpenAndBind(root_, &ops::kNxd, {}), Errc::kCorrupt,
                                 "found 16, the config says 8");
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->member(), "num_attention_heads");
  Gqa()["num_attention_heads"] = 8;
  Gqa()["kv_size_multiplier"] = 1;
  Write();
  ExpectError(ops::OpenAndBind(root_, &ops::kNxd, {}), Errc::kCorrupt,
              "the kv multiplier is 2 by the set's names and shapes, but is 1 by "
              "mp_metadata_pp_rank_0.json");
}

}  // namespace
}  // namespace nxdkit
