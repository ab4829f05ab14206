// neuron_config.json in both dialects: accepted, refused and written.
#include "formats/rollout/neuron_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "lib/json/json.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_util::ExpectError;

// A decoder's bundle, with all of a decoder's keys.
json Optimum() {
  return {{"_serialized_key", "NxDNeuronConfig"},
          {"batch_size", 4},
          {"capacity_factor", nullptr},
          {"checkpoint_id", "org/model"},
          {"checkpoint_revision", "0123abcd"},
          {"continuous_batching", true},
          {"ep_degree", 1},
          {"fused_qkv", true},
          {"glu_mlp", true},
          {"local_ranks_size", 8},
          {"max_batch_size", 4},
          {"max_context_length", 4096},
          {"max_topk", 256},
          {"n_active_tokens", 4096},
          {"neuronxcc_version", "2.21.33363.0+82129205"},
          {"on_device_sampling", true},
          {"optimum_neuron_version", "0.4.6.dev4"},
          {"output_logits", false},
          {"pp_degree", 1},
          {"prefill_chunk_size", 1024},
          {"sequence_length", 4096},
          {"speculation_length", 0},
          {"start_rank_id", 0},
          {"target", "trn1"},
          {"torch_dtype", "bfloat16"},
          {"tp_degree", 8}};
}

// Hugging Face keys at the top, the settings inside.
std::string Nxdi(const json& settings = json::object()) {
  json inner = {{"tp_degree", 8},
                {"batch_size", 2},
                {"seq_len", 2048},
                {"world_size", 8},
                {"local_ranks_size", 8},
                {"torch_dtype", "bfloat16"},
                {"save_sharded_checkpoint", true}};
  inner.update(settings);
  const json top = {{"model_type", "llama"},
                    {"fused_spec_config", nullptr},
                    {"metadata", nullptr},
                    {"num_cores_per_group", 1},
                    {"neuron_config", inner}};
  std::string text = top.dump();
  // Always present, and never strict JSON.
  const std::string mark = "\"neuron_config\":{";
  return text.replace(text.find(mark), mark.size(), mark + "\"quantize_clamp_bound\":Infinity,");
}

NeuronConfig Parsed(const std::string& text) {
  auto config = ParseNeuronConfig(text, "neuron_config.json");
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  return config.ok() ? *std::move(config) : NeuronConfig();
}

TEST(Optimum, IsRead) {
  const NeuronConfig config = Parsed(Optimum().dump());
  EXPECT_EQ(FlavorName(config.flavor), "optimum");
  EXPECT_EQ(config.tp, 8);
  EXPECT_EQ(config.start_rank, 0);
  EXPECT_EQ(config.local_ranks, 8);
  EXPECT_EQ(config.batch_size, 4);
  EXPECT_EQ(config.sequence_length, 4096);
  EXPECT_EQ(config.torch_dtype, "bfloat16");
  EXPECT_TRUE(config.fused_qkv);
  EXPECT_EQ(config.checkpoint_id, "org/model");
  EXPECT_THAT(config.unsupported, IsEmpty());
  const Geometry geometry = config;
  EXPECT_EQ(geometry.tp, 8);
  EXPECT_TRUE(geometry.fused_qkv);
  EXPECT_FALSE(geometry.vocab_parallel);
}

TEST(Optimum, KernelFlagsOfTheOtherDialectMeanNothing) {
  json config = Optimum();
  config["mlp_kernel_enabled"] = true;
  config["vocab_parallel"] = true;
  const NeuronConfig parsed = Parsed(config.dump());
  EXPECT_FALSE(parsed.transposed_mlp);
  EXPECT_FALSE(parsed.vocab_parallel);
}

TEST(Optimum, AnotherClassIsNotSupported) {
  json config = Optimum();
  config["_serialized_key"] = "NxDVLMNeuronConfig";
  EXPECT_THAT(Parsed(config.dump()).unsupported,
              ElementsAre("_serialized_key: NxDVLMNeuronConfig"));
}

TEST(Nxdi, IsReadWithBareInfinity) {
  const NeuronConfig config = Parsed(Nxdi());
  EXPECT_EQ(FlavorName(config.flavor), "nxdi");
  EXPECT_EQ(config.tp, 8);
  EXPECT_EQ(config.batch_size, 2);
  EXPECT_EQ(config.sequence_length, 2048);
  EXPECT_TRUE(config.sharded_checkpoint);
  EXPECT_FALSE(config.fused_qkv);
  EXPECT_THAT(config.unsupported, IsEmpty());
}

TEST(Nxdi, AbsentKeysHaveTheirDefaults) {
  const NeuronConfig config = Parsed(R"({"neuron_config": {}})");
  EXPECT_EQ(config.tp, 1);
  EXPECT_EQ(config.local_ranks, 1);
  EXPECT_EQ(config.batch_size, 1);
  EXPECT_EQ(config.sequence_length, 128);
  EXPECT_EQ(config.torch_dtype, "bfloat16");
  EXPECT_FALSE(config.sharded_checkpoint);
}

struct Kernel {
  const char* key;
  bool qkv, output, mlp;
};

class Kernels : public ::testing::TestWithParam<Kernel> {};
TEST_P(Kernels, TransposeTheirMatrices) {
  const Kernel& row = GetParam();
  const NeuronConfig fused = Parsed(Nxdi({{row.key, true}, {"fused_qkv", true}}));
  EXPECT_EQ(fused.transposed_qkv, row.qkv);
  EXPECT_EQ(fused.transposed_output, row.output);
  EXPECT_EQ(fused.transposed_mlp, row.mlp);
  const NeuronConfig apart = Parsed(Nxdi({{row.key, true}}));
  EXPECT_FALSE(apart.transposed_qkv) << "only Wqkv is";
  EXPECT_EQ(apart.transposed_output, row.output);
}
INSTANTIATE_TEST_SUITE_P(
    Flags, Kernels,
    ::testing::Values(Kernel{"qkv_kernel_enabled", true, false, false},
                      Kernel{"qkv_nki_kernel_enabled", true, false, false},
                      Kernel{"out_proj_kernel_enabled", false, true, false},
                      Kernel{"attn_block_tkg_nki_kernel_enabled", false, true, false},
                      Kernel{"attn_tkg_nki_kernel_enabled", false, true, false},
                      Kernel{"attn_tkg_builtin_kernel_enabled", false, true, false},
                      Kernel{"attn_block_cte_nki_kernel_enabled", true, true, false},
                      Kernel{"mlp_kernel_enabled", false, false, true},
                      Kernel{"mlp_tkg_nki_kernel_enabled", false, false, true},
                      Kernel{"attn_kernel_enabled", false, false, false}),
    [](const auto& row) { return std::string(row.param.key); });

struct Setting {
  const char* key;
  json value;
  const char* text;
};

class Unsupported : public ::testing::TestWithParam<Setting> {};
TEST_P(Unsupported, SettingsAreNamed) {
  const Setting& row = GetParam();
  EXPECT_THAT(Parsed(Nxdi({{row.key, row.value}})).unsupported, ElementsAre(row.text));
  EXPECT_THAT(Parsed(Nxdi({{row.key, nullptr}})).unsupported, IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(
    Table, Unsupported,
    ::testing::Values(
        Setting{"pp_degree", 2, "pp_degree: 2"}, Setting{"ep_degree", 4, "ep_degree: 4"},
        Setting{"cp_degree", 8, "cp_degree: 8"}, Setting{"mlp_cp_degree", 2, "mlp_cp_degree: 2"},
        Setting{"attention_dp_degree", 2, "attention_dp_degree: 2"},
        Setting{"moe_ep_degree", 2, "moe_ep_degree: 2"},
        Setting{"quantized", true, "quantized: true"},
        Setting{"quantized_mlp_kernel_enabled", true, "quantized_mlp_kernel_enabled: true"},
        Setting{"fused_rmsnorm_skip_gamma", true, "fused_rmsnorm_skip_gamma: true"},
        Setting{"enable_fused_speculation", true, "enable_fused_speculation: true"},
        Setting{"enable_eagle_speculation", true, "enable_eagle_speculation: true"},
        Setting{"is_eagle_draft", true, "is_eagle_draft: true"},
        Setting{"is_medusa", true, "is_medusa: true"},
        Setting{"is_mxfp4_compute", true, "is_mxfp4_compute: true"},
        Setting{"is_full_model_shuffled", true, "is_full_model_shuffled: true"},
        Setting{"padded_hidden_size", 4096, "padded_hidden_size is set"},
        Setting{"padded_intermediate_size", 4096, "padded_intermediate_size is set"},
        Setting{"activation_quantization_type", "dynamic", "activation_quantization_type is set"},
        Setting{"moe_fused_nki_kernel_enabled", true, "moe_fused_nki_kernel_enabled: true"},
        Setting{"expert_mlp_nki_kernel_enabled", true, "expert_mlp_nki_kernel_enabled: true"},
        Setting{"transpose_shared_experts_weights", true, "transpose_shared_experts_weights: true"},
        Setting{"hybrid_sharding_config", json::object(), "hybrid_sharding_config is set"},
        Setting{"moe_tp_degree", 3, "moe_tp_degree: 3"},
        Setting{"glu_mlp", false, "glu_mlp: false"},
        Setting{"blockwise_matmul_config",
                {{"use_shard_on_intermediate_dynamic_while", true}},
                "use_shard_on_intermediate_dynamic_while: true"},
        Setting{"lora_config", json::object(), "lora_config is set"},
        Setting{"cast_type", "as-declared", "cast_type: as-declared"}),
    [](const auto& row) { return std::string(row.param.key); });

TEST(Unsupported, FusedSpeculationAtTheTop) {
  EXPECT_THAT(Parsed(R"({"neuron_config": {}, "fused_spec_config": {"draft_model_path": "x"}})")
                  .unsupported,
              ElementsAre("fused_spec_config is set"));
}

TEST(Unsupported, PaddedExpertsAtTheTop) {
  EXPECT_THAT(Parsed(R"({"neuron_config": {}, "moe_intermediate_pad_size": 128})").unsupported,
              ElementsAre("moe_intermediate_pad_size: 128"));
  EXPECT_THAT(Parsed(R"({"neuron_config": {}, "moe_intermediate_pad_size": 0})").unsupported,
              IsEmpty());
  EXPECT_THAT(Parsed(R"({"neuron_config": {}, "moe_fused_nki_kernel_enabled": true})").unsupported,
              ElementsAre("moe_fused_nki_kernel_enabled: true"));
}

TEST(Experts, HoldTheirRankUnlessTheBlocksAreMappedOtherwise) {
  EXPECT_TRUE(Parsed(R"({"neuron_config": {}})").expert_ranks);
  const auto mapped = [](bool parallel) {
    return Parsed(
        Nxdi({{"blockwise_matmul_config", {{"parallelize_token_to_block_mapping", parallel}}}}));
  };
  EXPECT_TRUE(mapped(true).expert_ranks);
  EXPECT_FALSE(mapped(false).expert_ranks);
  EXPECT_EQ(mapped(false).flavor, Flavor::kNxdi);
  const auto error = ExpectError(ParseNeuronConfig(R"({"neuron_config": {"blockwise_matmul_config":
                              {"parallelize_token_to_block_mapping": 1}}})",
                                                   "neuron_config.json"),
                                 Errc::kCorrupt, "found 1, expected true or false");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(),
            "neuron_config.blockwise_matmul_config.parallelize_token_to_block_mapping");
}

TEST(Dialect, UnknownIsRefused) {
  for (const char* text :
       {"{}", R"({"tp_degree": 8})", R"({"neuron_config": null})", R"({"neuron_config": [1]})",
        R"({"_serialized_key": null})", "[]", "8"}) {
    const auto error = ExpectError(ParseNeuronConfig(text, "b/neuron_config.json"), Errc::kCorrupt,
                                   "an unknown dialect");
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->file(), "b/neuron_config.json");
  }
}

TEST(Dialect, BrokenJsonIsRefusedAtItsPlace) {
  const auto error = ExpectError(ParseNeuronConfig("{\"a\": nan}", "neuron_config.json"),
                                 Errc::kCorrupt, "JSON line 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset(), 7u);
}

struct ConfigFault {
  const char* key;
  json value;
  const char* message;
};

class Faulty : public ::testing::TestWithParam<ConfigFault> {};
TEST_P(Faulty, NamesTheKeyInBothDialects) {
  const ConfigFault& row = GetParam();
  json optimum = Optimum();
  optimum[row.key] = row.value;
  const auto flat = ExpectError(ParseNeuronConfig(optimum.dump(), "b/neuron_config.json"),
                                Errc::kCorrupt, row.message);
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->member(), row.key);
  EXPECT_EQ(flat->file(), "b/neuron_config.json");
  const auto nested = ExpectError(ParseNeuronConfig(Nxdi({{row.key, row.value}}), "f"),
                                  Errc::kCorrupt, row.message);
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->member(), std::string("neuron_config.") + row.key);
}
INSTANTIATE_TEST_SUITE_P(
    Keys, Faulty,
    ::testing::Values(
        ConfigFault{"tp_degree", "8", "found \"8\", expected an integer from 1 to 4096"},
        ConfigFault{"tp_degree", 0, "found 0, expected an integer from 1 to 4096"},
        ConfigFault{"tp_degree", 4097, "found 4097, expected an integer from 1 to 4096"},
        ConfigFault{"tp_degree", 8.0, "found 8.0, expected an integer"},
        ConfigFault{"tp_degree", std::numeric_limits<uint64_t>::max(),
                    "found 18446744073709551615, expected an integer"},
        ConfigFault{"start_rank_id", -1, "found -1, expected an integer from 0"},
        ConfigFault{"local_ranks_size", json::array(), "found [], expected an integer"},
        ConfigFault{"batch_size", true, "found true, expected an integer"},
        ConfigFault{"torch_dtype", 16, "found 16, expected a string"},
        ConfigFault{"fused_qkv", 1, "found 1, expected true or false"},
        ConfigFault{"quantized", "no", "found \"no\", expected true or false"},
        ConfigFault{"pp_degree", "two", "found \"two\", expected an integer"},
        ConfigFault{"cast_type", false, "found false, expected a string"},
        ConfigFault{"local_ranks_size", 9,
                    "9 ranks from start_rank_id 0 on are more than tp_degree 8"}),
    [](const auto& row) { return fmt::format("{}{}", row.param.key, row.index); });

TEST(Faulty, KeysOfOneDialectOnly) {
  for (const char* key :
       {"vocab_parallel", "save_sharded_checkpoint", "qkv_kernel_enabled", "qkv_nki_kernel_enabled",
        "out_proj_kernel_enabled", "mlp_kernel_enabled"}) {
    const auto error = ExpectError(ParseNeuronConfig(Nxdi({{key, "on"}}), "f"), Errc::kCorrupt,
                                   "found \"on\", expected true or false");
    ASSERT_TRUE(error) << key;
    EXPECT_EQ(error->member(), std::string("neuron_config.") + key);
  }
  json optimum = Optimum();
  optimum["sequence_length"] = "4k";
  const auto error = ExpectError(ParseNeuronConfig(optimum.dump(), "f"), Errc::kCorrupt,
                                 "found \"4k\", expected an integer");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "sequence_length");
}

TEST(RanksOfAConfig, OfOneNodeOfTwo) {
  const NeuronConfig config = Parsed(Nxdi({{"start_rank_id", 4}, {"local_ranks_size", 4}}));
  EXPECT_EQ(config.start_rank, 4);
  EXPECT_EQ(config.local_ranks, 4);
}

// --- writing -------------------------------------------------------------------------------------

NeuronConfig Full(Flavor flavor) {
  NeuronConfig config;
  config.flavor = flavor;
  config.local_ranks = config.tp = 8;
  config.batch_size = 4;
  config.sequence_length = 4096;
  config.fused_qkv = true;
  config.stamp = {kOptimumVersion, kCompilerVersion};
  return config;
}

std::string Written(const NeuronConfig& config, std::string_view hf = "") {
  auto text = WriteNeuronConfig(config, hf);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return text.ok() ? *text : "";
}

TEST(WrittenOptimum, HasExactlyTheKeysOfADecoder) {
  const std::string text = Written(Full(Flavor::kOptimum));
  const json written = json::parse(text);
  const json expected = Optimum();
  std::vector<std::string> keys;
  for (const auto& [key, value] : written.items()) keys.push_back(key);
  std::vector<std::string> expected_keys;
  for (const auto& [key, value] : expected.items()) expected_keys.push_back(key);
  EXPECT_EQ(keys, expected_keys) << "an unknown key is a TypeError in optimum-neuron";
  for (const char* key : {"batch_size", "continuous_batching", "fused_qkv", "local_ranks_size",
                          "max_context_length", "neuronxcc_version", "optimum_neuron_version",
                          "prefill_chunk_size", "sequence_length", "tp_degree", "torch_dtype"})
    EXPECT_EQ(written[key], expected[key]) << key;
  EXPECT_EQ(written["checkpoint_id"], nullptr);
}

TEST(WrittenOptimum, IsSortedIndentedByTwoWithALineFeed) {
  const std::string text = Written(Full(Flavor::kOptimum));
  EXPECT_THAT(text, ::testing::StartsWith(
                        "{\n  \"_serialized_key\": \"NxDNeuronConfig\",\n  \"batch_size\": 4,\n"));
  EXPECT_THAT(text, ::testing::EndsWith("\"tp_degree\": 8\n}\n"));
}

TEST(WrittenOptimum, ShortSequencesAreNotChunked) {
  NeuronConfig config = Full(Flavor::kOptimum);
  config.sequence_length = 1024;
  config.batch_size = 1;
  const json written = json::parse(Written(config));
  EXPECT_EQ(written["prefill_chunk_size"], 0);
  EXPECT_EQ(written["continuous_batching"], false);
}

TEST(WrittenOptimum, HasNoWordForNxdisLayouts) {
  for (bool NeuronConfig::*flag :
       {&NeuronConfig::vocab_parallel, &NeuronConfig::transposed_qkv,
        &NeuronConfig::transposed_output, &NeuronConfig::transposed_mlp}) {
    NeuronConfig config = Full(Flavor::kOptimum);
    config.*flag = true;
    const auto error =
        ExpectError(WriteNeuronConfig(config, ""), Errc::kUnsupported, "optimum-neuron knows no");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->hint(), "use --flavor nxdi");
  }
}

TEST(WrittenNxdi, IsTheConfigWithTheSettingsInside) {
  const std::string hf =
      R"({"model_type": "llama", "hidden_size": 64, "torch_dtype": "bfloat16", "dtype": "bfloat16",
          "rope_scaling": {"factor": 8.0}})";
  const std::string text = Written(Full(Flavor::kNxdi), hf);
  EXPECT_THAT(text, ::testing::HasSubstr("\"quantize_clamp_bound\": Infinity"));
  EXPECT_THAT(text, ::testing::EndsWith("}\n"));
  const Result<Json> written = ParseJson(text, {.allow_nan = true});
  ASSERT_TRUE(written.ok()) << written.error().ToString();
  const Json& top = *written;
  EXPECT_EQ(top["hidden_size"], 64);
  EXPECT_EQ(top["rope_scaling"]["factor"], 8.0);
  EXPECT_FALSE(top.contains("torch_dtype")) << "moved into neuron_config";
  EXPECT_FALSE(top.contains("dtype"));
  EXPECT_EQ(top["fused_spec_config"], nullptr);
  EXPECT_EQ(top["metadata"], nullptr);
  EXPECT_EQ(top["num_cores_per_group"], 1);
  const Json& inner = top["neuron_config"];
  EXPECT_EQ(inner["torch_dtype"], "bfloat16");
  EXPECT_EQ(inner["tp_degree"], 8);
  EXPECT_EQ(inner["seq_len"], 4096);
  EXPECT_EQ(inner["batch_size"], 4);
  EXPECT_EQ(inner["save_sharded_checkpoint"], true);
}

TEST(WrittenNxdi, AConfigThatIsNoObjectIsRefused) {
  ExpectError(WriteNeuronConfig(Full(Flavor::kNxdi), "[]"), Errc::kCorrupt,
              "config.json is not an object");
}

// A written configuration reads back the same, whatever the flags.
TEST(WrittenBoth, ComeBack) {
  for (int bits = 0; bits < 32; ++bits) {
    for (const Flavor flavor : {Flavor::kOptimum, Flavor::kNxdi}) {
      NeuronConfig config = Full(flavor);
      config.fused_qkv = bits & 1;
      if (flavor == Flavor::kNxdi) {
        config.vocab_parallel = bits & 2;
        config.transposed_output = bits & 4;
        config.transposed_mlp = bits & 8;
        config.transposed_qkv = config.fused_qkv && (bits & 16) != 0;
      }
      const NeuronConfig back = Parsed(Written(config, R"({"model_type": "llama"})"));
      EXPECT_EQ(back.flavor, config.flavor);
      EXPECT_EQ(back.tp, config.tp);
      EXPECT_EQ(back.start_rank, config.start_rank);
      EXPECT_EQ(back.local_ranks, config.local_ranks);
      EXPECT_EQ(back.batch_size, config.batch_size);
      EXPECT_EQ(back.sequence_length, config.sequence_length);
      EXPECT_EQ(back.torch_dtype, config.torch_dtype);
      EXPECT_EQ(back.fused_qkv, config.fused_qkv);
      EXPECT_EQ(back.sharded_checkpoint, true);
      EXPECT_EQ(back.vocab_parallel, config.vocab_parallel);
      EXPECT_EQ(back.transposed_qkv, config.transposed_qkv);
      EXPECT_EQ(back.transposed_output, config.transposed_output);
      EXPECT_EQ(back.transposed_mlp, config.transposed_mlp);
      EXPECT_THAT(back.unsupported, IsEmpty());
    }
  }
}

}  // namespace
}  // namespace nxdkit::rollout
