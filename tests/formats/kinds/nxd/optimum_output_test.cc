// optimum-neuron's training checkpoints as we write them: folder, metadata and settings; reading
// them back; and models and layouts that its trainer has no module for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/nxd/decide_nxd.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/open.h"
#include "formats/nxd/optimum.h"
#include "formats/ops/digest/manifest.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::FindingsOf;
using testing_util::OpsWorkshop;
using testing_util::TinyModel;

ops::OutputOptions Optimum(int tp) {
  ops::OutputOptions options;
  options.Set("tp", tp);
  options.Set("style", "optimum");
  return options;
}

std::string DigestOf(const std::string& path) {
  ops::DigestRequest request;
  request.path = path;
  const Result<ops::DigestReport> report = ops::Digest(request);
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? manifest::DigestText(report->model.digest) : "";
}

Json JsonOf(const std::string& path) {
  const Result<Json> json = ReadJsonFile(path, 1 << 20);
  EXPECT_TRUE(json.ok()) << json.error().ToString();
  return json.ok() ? *json : Json();
}

struct Row {
  const char* name;
  TinyModel model;
  void (*change)(ops::OutputOptions& options);
  int tp;
  nxd::QkvStyle qkv;
  int multiplier;
};

class OptimumLayouts : public ::testing::TestWithParam<Row> {};
TEST_P(OptimumLayouts, ComeBackWithTheSameDigest) {
  const Row& row = GetParam();
  const OpsWorkshop workshop;
  const std::string model = workshop.MakeModel("model", row.model);
  ops::OutputOptions options = Optimum(row.tp);
  row.change(options);
  const std::string out = workshop.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, options);
  const auto bound = ops::OpenAndBind(out, &ops::kNxd, {});
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_EQ(ops::NxdLayoutOf(*bound)->geometry.qkv, row.qkv);
  EXPECT_EQ(ops::NxdLayoutOf(*bound)->geometry.kv_multiplier, row.multiplier);
  const ops::NxdState& state = *ops::NxdStateOf(bound->artifact);
  ASSERT_TRUE(state.mp_record);
  EXPECT_EQ(static_cast<int>(state.mp_record->ranks.size()), options.Number("pp").value_or(1));
  EXPECT_TRUE(FindingsOf(out, model).empty());
  EXPECT_EQ(DigestOf(out), DigestOf(model));
  // Without our own record, the metadata is enough.
  std::filesystem::remove(out + "/shards/nxdkit.json");
  const std::string back = workshop.Make("back", out, &ops::kNxd, &ops::kHf);
  EXPECT_EQ(DigestOf(back), DigestOf(model));
}
INSTANTIATE_TEST_SUITE_P(Of, OptimumLayouts,
                         ::testing::Values(Row{"Llama", testing_util::TinyLlama(), [](auto&) {}, 2,
                                               nxd::QkvStyle::kSeparate, 1},
                                           Row{"Copies", testing_util::TinyLlama(), [](auto&) {}, 8,
                                               nxd::QkvStyle::kLinear, 4},
                                           Row{"FusedStages", testing_util::TinyQwen3(),
                                               [](auto& o) {
                                                 o.Set("qkv", "fused");
                                                 o.Set("pp", 2);
                                               },
                                               4, nxd::QkvStyle::kFused, 2},
                                           Row{"Coalesced", testing_util::TinyMha(),
                                               [](auto& o) {
                                                 o.Set("qkv", "coalesced");
                                                 o.Set("xser", false);
                                               },
                                               4, nxd::QkvStyle::kCoalesced, 1},
                                           Row{"VirtualStages", testing_util::TinyLlama(),
                                               [](auto& o) {
                                                 o.Set("pp", 2);
                                                 o.Set("vpp", 2);
                                               },
                                               2, nxd::QkvStyle::kSeparate, 1}),
                         [](const auto& row) { return row.param.name; });

class OptimumOutput : public ::testing::Test {
 protected:
  ops::ConvertRequest Request(const std::string& input, const Kind* from, int tp) const {
    return OpsWorkshop::Request(input, from, workshop_ / "out", &ops::kNxd, Optimum(tp));
  }
  const OpsWorkshop workshop_;
};

TEST_F(OptimumOutput, IsAFolderAroundTheTag) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string out = workshop_.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, Optimum(4));
  for (const char* name : {"config.json", "trn_config.json", "shards/checkpoint", "shards/done",
                           "shards/mp_metadata_pp_rank_0.json",
                           "shards/model/dp_rank_00_tp_rank_03_pp_rank_00.pt.info.pt"})
    EXPECT_EQ(*KindOf(out + "/" + name), PathKind::kFile) << name;
  const Json config = JsonOf(out + "/trn_config.json");
  EXPECT_EQ(config["tensor_parallel_size"], 4);
  EXPECT_EQ(config["kv_size_multiplier"], 2);
  EXPECT_EQ(config["fuse_qkv"], false);
  EXPECT_EQ(config["use_xser"], true);
}

// The specs have the bytes that optimum-neuron's own classes write.
TEST_F(OptimumOutput, MetadataSaysHowItsLayersAreMade) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  ops::OutputOptions options = Optimum(4);
  options.Set("pp", 2);
  const std::string out = workshop_.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, options);
  const Json metadata = JsonOf(out + "/shards/mp_metadata_pp_rank_1.json");
  const Json& parameters = metadata["parameters"];
  EXPECT_FALSE(parameters.contains("model.embed_tokens.weight"));
  EXPECT_EQ(parameters["lm_head.weight"].dump(),
            R"({"tensor_model_parallel":true,"partition_dim":0,"partition_stride":1,)"
            R"("num_partitions":4})");
  EXPECT_EQ(parameters["model.layers.2.mlp.gate_up_proj.weight"]["partition_stride"], 2);
  EXPECT_EQ(parameters["model.norm.weight"].dump(), R"({"tensor_model_parallel":false})");
  const Json& modules = metadata["model_weight_transformation_specs"];
  ASSERT_EQ(modules.size(), 8u) << "two of each of the four layers";
  EXPECT_EQ(modules[0].dump(),
            R"({"module_fully_qualified_name":"model.layers.0.self_attn","specs":[]})");
  EXPECT_EQ(modules[4]["specs"].dump(),
            R"([["GQAQKVColumnParallelLinearSpec",{"gqa_qkv_projection_name":"qkv_proj",)"
            R"("query_projection_name":"q_proj","key_projection_name":"k_proj",)"
            R"("value_projection_name":"v_proj","output_projection_name":"o_proj",)"
            R"("num_attention_heads":8,"num_key_value_heads":2,"kv_size_multiplier":2,)"
            R"("q_output_size_per_partition":8,"kv_output_size_per_partition":4,)"
            R"("fuse_qkv":false,"bias":false,"tp_size":4,"peft_type":null}]])");
  EXPECT_EQ(modules[5]["specs"].dump(),
            R"([["FusedLinearsSpec",{"fused_linear_name":"gate_up_proj",)"
            R"("linear_names":["gate_proj","up_proj"],"bias":false,"fuse_axis":0,)"
            R"("original_dims":[48,48],"tp_size":4,"peft_type":null}]])");
}

// NxD's layer does not record how weight_qkv is cut; a checkpoint of the trainer records it as
// whole.
TEST_F(OptimumOutput, AFusedProjectionIsRecordedAsWhole) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  ops::OutputOptions options = Optimum(4);
  options.Set("qkv", Word(nxd::QkvStyle::kFused));
  const std::string out = workshop_.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, options);
  const Json metadata = JsonOf(out + "/shards/mp_metadata_pp_rank_0.json");
  EXPECT_EQ(metadata["parameters"]["model.layers.0.self_attn.qkv_proj.weight_qkv"].dump(),
            R"({"tensor_model_parallel":false})");
  EXPECT_TRUE(FindingsOf(out).empty());
}

// Both tensors of a tied pair are stored, and the first is recorded.
TEST_F(OptimumOutput, TheSecondOfATiedPairIsStoredButNotRecorded) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyQwen3());
  const std::string out = workshop_.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, Optimum(2));
  testing_util::FindStored(out, &ops::kNxd, "lm_head.weight", 0);
  const Json metadata = JsonOf(out + "/shards/mp_metadata_pp_rank_0.json");
  EXPECT_FALSE(metadata["parameters"].contains("lm_head.weight"));
  EXPECT_TRUE(metadata["parameters"].contains("model.embed_tokens.weight"));
}

// Resharding keeps the trainer's values and changes the sizes.
TEST_F(OptimumOutput, AReshardedCheckpointStaysOne) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string out = workshop_.Make("checkpoint-7", model, &ops::kHf, &ops::kNxd, Optimum(4));
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(out + "/" + name) << text;
  };
  write("trn_config.json", R"({"tensor_parallel_size": 4, "gradient_checkpointing": true})");
  write("scheduler.pt", "lr");
  write("training_args.bin", "sizes");
  write("trainer_state.json", "{}");
  ops::ConvertRequest request =
      OpsWorkshop::Request(out, &ops::kNxd, workshop_ / "checkpoint-8", &ops::kNxd);
  request.options.Set("training-tag", true);
  request.options.Set("tp", 2);
  request.verify = true;
  const auto report = ops::Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(static_cast<const ops::NxdOutput&>(*report->target).xser);
  const Json config = JsonOf(request.output + "/trn_config.json");
  EXPECT_EQ(config["tensor_parallel_size"], 2);
  EXPECT_EQ(config["gradient_checkpointing"], true);
  EXPECT_EQ(config["kv_size_multiplier"], nullptr);
  EXPECT_EQ(*KindOf(request.output + "/scheduler.pt"), PathKind::kFile);
  EXPECT_EQ(*KindOf(request.output + "/trainer_state.json"), PathKind::kFile);
  EXPECT_EQ(*KindOf(request.output + "/training_args.bin"), PathKind::kMissing);
  EXPECT_EQ(DigestOf(request.output), DigestOf(model));

  request.output = workshop_ / "step_8";
  request.options.Set("style", "hf");
  const auto plain = ops::Convert(request);
  ASSERT_TRUE(plain.ok()) << plain.error().ToString();
  EXPECT_EQ(*KindOf(request.output + "/model"), PathKind::kFolder);
  EXPECT_THAT(plain->notes,
              ::testing::Contains(HasSubstr("mp_metadata_pp_rank_*.json is not written")));
}

TEST_F(OptimumOutput, TheOutputIsNotTheTag) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  ops::ConvertRequest request = Request(model, &ops::kHf, 2);
  request.output = workshop_ / "shards";
  ExpectError(ops::Convert(request), Errc::kUsage,
              "the output is the checkpoint's folder, in which shards is made");
}

struct OptimumRefusal {
  const char* name;
  TinyModel model;
  int tp;
  void (*change)(ops::OutputOptions& options);
  Errc code;
  const char* message;
};

class OptimumRefuses : public ::testing::TestWithParam<OptimumRefusal> {};
TEST_P(OptimumRefuses, WithTheReason) {
  const OptimumRefusal& row = GetParam();
  const OpsWorkshop workshop;
  ops::OutputOptions options = Optimum(row.tp);
  row.change(options);
  ExpectError(ops::DryRun(OpsWorkshop::Request(workshop.MakeModel("model", row.model), &ops::kHf,
                                               workshop / "out", &ops::kNxd, options)),
              row.code, row.message);
}
INSTANTIATE_TEST_SUITE_P(
    Of, OptimumRefuses,
    ::testing::Values(
        OptimumRefusal{"AnotherFamily", testing_util::TinyMixtral(), 2, [](auto&) {},
                       Errc::kUnsupported,
                       "optimum-neuron's trainer has no module for mixtral models"},
        OptimumRefusal{
            "AnotherStyleOfCopies", testing_util::TinyLlama(), 4,
            [](auto& o) {
              o.Set("qkv", "separate");
              o.Set("kv-multiplier", 2);
            },
            Errc::kUnsupported,
            "optimum-neuron stores 2 key heads on tp 4 in the linear style, not separate"},
        OptimumRefusal{
            "ALayerThatItHasNot", testing_util::TinyLlama(), 2,
            [](auto& o) { o.Set("qkv", "linear"); }, Errc::kUnsupported,
            "optimum-neuron stores 2 key heads on tp 2 in the separate style, not linear"},
        OptimumRefusal{"Trn2", testing_util::TinyLlama(), 4, [](auto& o) { o.Set("hw", "trn2"); },
                       Errc::kUsage, "optimum-neuron stores repeated key heads as for trn1"}),
    [](const auto& row) { return row.param.name; });

TEST_F(OptimumOutput, OfAModelThatItsModulesLackSomethingForIsRefused) {
  const auto parsed = models::ParseConfig(
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 1, "num_attention_heads": 8, "vocab_size": 64,
          "attention_bias": true})",
      "config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  models::ModelConfig config = *parsed;
  const auto error = ExpectError(nxd::CheckOptimum(config, {.tp = 2}), Errc::kUnsupported,
                                 "optimum-neuron's modules have no biases");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("--style hf"));
  config.labels = 1;
  ExpectError(nxd::CheckOptimum(config, {.tp = 2}), Errc::kUnsupported,
              "no module with a score head");
  config.labels = 0;
  config.hidden = 36;
  config.qkv_bias = config.output_bias = false;
  ExpectError(nxd::CheckOptimum(config, {.tp = 2}), Errc::kUnsupported,
              "a hidden size that 8 heads divide, this one is 36");
}

}  // namespace
}  // namespace nxdkit
