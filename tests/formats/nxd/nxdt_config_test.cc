// Configurations as in NxD Training's examples.
#include "formats/nxd/nxdt_config.h"

#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

using testing_util::ExpectError;

// The relevant keys of hf_llama3_8B_config.yaml, and some others.
constexpr char kLlama[] = R"(
name: hf_llama
model_source: hf
seed: 1234
trainer:
  devices: 32
  num_nodes: 4
  max_steps: 10
exp_manager:
  exp_dir: null
  save_xser: True
  async_checkpointing: False
distributed_strategy:
  tensor_model_parallel_size: 32
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: 1
  zero1: True
  sequence_parallel: True
  kv_replicator: 4
data:
  global_batch_size: 1024
  total: ${multiply:${trainer.max_steps}, ${data.global_batch_size}}
model:
  model_config: /models/config.json
  qkv_linear: True
  fuse_qkv: True
precision:
  type: 'mixed_precision'
)";

NxdtConfig Parsed(const std::string& text) {
  const auto config = ParseNxdtConfig(text, "config.yaml");
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  return config.ok() ? *config : NxdtConfig();
}

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  return text.replace(text.find(what), what.size(), with);
}

// As in its Megatron and its newer configurations.
TEST(NxdtConfig, TheLengthIsTheDatasOrTheEncoders) {
  const std::string encoder = "model:\n  encoder_seq_length: 8192\n";
  const std::string strategy = "distributed_strategy:\n  tensor_model_parallel_size: 8\n";
  EXPECT_EQ(Parsed(strategy + encoder).sequence, 8192);
  EXPECT_EQ(
      Parsed(strategy + encoder + "data:\n  seq_length: ${model.encoder_seq_length}\n").sequence,
      8192);
  EXPECT_EQ(Parsed(strategy + encoder + "data:\n  seq_length: 512\n").sequence, 512);
  const NxdtConfig neither = Parsed(strategy + "data:\n  micro_batch_size: ${a.b}\n");
  EXPECT_EQ(neither.sequence, 0);
  EXPECT_EQ(neither.micro_batch, 1);
}

TEST(NxdtConfig, OfLlama3SaysItsLayout) {
  const NxdtConfig config = Parsed(kLlama);
  EXPECT_EQ(config.layout.tp, 32);
  EXPECT_TRUE(config.zero1);
  EXPECT_FALSE(config.bf16_states);
  EXPECT_FALSE(config.recompute);
  EXPECT_EQ(config.layout.pp, 1);
  EXPECT_EQ(config.layout.vpp, 1);
  EXPECT_EQ(config.layout.ep, 1);
  EXPECT_EQ(config.layout.kv_multiplier, 4);
  EXPECT_EQ(config.qkv, QkvStyle::kFused);
  EXPECT_FALSE(config.layout.qkv.has_value());
  EXPECT_EQ(config.layout.hardware, models::Hardware::kTrn1);
  EXPECT_FALSE(config.layout.names.has_value());
  EXPECT_EQ(config.xser, true);
  EXPECT_EQ(config.model_config, "/models/config.json");
}

struct HardwareRow {
  const char* trainer;
  std::optional<models::Hardware> hardware;
};
class NxdtHardware : public ::testing::TestWithParam<HardwareRow> {};
TEST_P(NxdtHardware, FollowsFromDevicesAndLogicalCores) {
  const std::string text = Replaced(kLlama, "devices: 32", GetParam().trainer);
  EXPECT_EQ(Parsed(text).layout.hardware, GetParam().hardware);
}
INSTANTIATE_TEST_SUITE_P(
    All, NxdtHardware,
    ::testing::Values(HardwareRow{"devices: 32", models::Hardware::kTrn1},
                      HardwareRow{"devices: 32\n  lnc: 1", models::Hardware::kTrn1},
                      HardwareRow{"devices: 32\n  lnc: 2", models::Hardware::kTrn2},
                      HardwareRow{"devices: 64", models::Hardware::kTrn2},
                      HardwareRow{"devices: 128\n  lnc: 1", models::Hardware::kTrn2},
                      HardwareRow{"devices: 16", std::nullopt},
                      HardwareRow{"devices: auto", std::nullopt},
                      HardwareRow{"devices: null", std::nullopt}));

// The choices of models/hf_models of NxD Training 1.6: fuse_qkv is on unless it is switched off.
struct QkvRow {
  const char* model;
  QkvStyle qkv;
};
class NxdtQkv : public ::testing::TestWithParam<QkvRow> {};
TEST_P(NxdtQkv, IsWhatTheModuleHas) {
  const std::string text =
      Replaced(kLlama, "  qkv_linear: True\n  fuse_qkv: True\n", GetParam().model);
  EXPECT_EQ(Parsed(text).qkv, GetParam().qkv);
}
INSTANTIATE_TEST_SUITE_P(
    All, NxdtQkv,
    ::testing::Values(QkvRow{"  qkv_linear: True\n  fuse_qkv: False\n", QkvStyle::kLinear},
                      QkvRow{"  qkv_linear: True\n", QkvStyle::kFused},
                      QkvRow{"  qkv_linear: False\n  fuse_qkv: False\n", QkvStyle::kSeparate},
                      QkvRow{"  qkv_linear: False\n", QkvStyle::kCoalesced},
                      QkvRow{"", QkvStyle::kCoalesced},
                      QkvRow{"  moe:\n    num_experts: 8\n", QkvStyle::kCoalesced},
                      QkvRow{"  qkv_linear: True\n  fuse_qkv: False\n  moe:\n    num_experts: 8\n",
                             QkvStyle::kFused}));

TEST(NxdtConfig, WhatIsAbsentHasTheTrainersDefault) {
  const NxdtConfig config = Parsed("distributed_strategy:\n  tensor_model_parallel_size: 8\n");
  EXPECT_EQ(config.layout.tp, 8);
  EXPECT_EQ(config.layout.kv_multiplier, 1);
  EXPECT_FALSE(config.layout.hardware.has_value());
  EXPECT_FALSE(config.xser.has_value());
}

TEST(NxdtConfig, KeyHeadsAreRepeatedByOneLayerOnly) {
  EXPECT_EQ(Parsed(kLlama).layout.kv_multiplier, 4);
  EXPECT_TRUE(Parsed(kLlama).notes.empty());
  const NxdtConfig separate = Parsed(Replaced(kLlama, "qkv_linear: True", "qkv_linear: False"));
  EXPECT_EQ(separate.layout.kv_multiplier, 1);
  ASSERT_EQ(separate.notes.size(), 1u);
  EXPECT_NE(separate.notes.front().find("kv_replicator 4 is left out"), std::string::npos);
}

TEST(NxdtConfig, KeysOfTheSameFileAreFollowed) {
  const NxdtConfig config = Parsed(Replaced(kLlama, "pipeline_model_parallel_size: 1",
                                            "pipeline_model_parallel_size: ${trainer.num_nodes}"));
  EXPECT_EQ(config.layout.pp, 4);
}

TEST(NxdtConfig, NamesFollowTheSourceOfTheModel) {
  const std::string megatron = Replaced(kLlama, "model_source: hf", "model_source: megatron");
  EXPECT_EQ(Parsed(megatron).layout.names, NameStyle::kMegatron);
  EXPECT_FALSE(Parsed(megatron).qkv.has_value()) << "its module has one way";
  const std::string mixtral =
      Replaced(kLlama, "fuse_qkv: True", "fuse_qkv: False\n  moe:\n    x: 1");
  EXPECT_EQ(Parsed(mixtral).layout.names, NameStyle::kNxdt);
}

TEST(NxdtConfig, FaultsSayLineKeyAndValue) {
  const auto fails = [](const std::string& text, Errc code, const std::string& part,
                        const std::string& member) {
    const auto error = ExpectError(ParseNxdtConfig(text, "c.yaml"), code, part);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), "c.yaml");
    EXPECT_EQ(error->member(), member);
  };
  fails(Replaced(kLlama, "parallel_size: 32", "parallel_size: many"), Errc::kUsage,
        "line 14 column 31: found \"many\", expected a whole number from 1 to 4096",
        "distributed_strategy.tensor_model_parallel_size");
  fails(Replaced(kLlama, "kv_replicator: 4", "kv_replicator: 0"), Errc::kUsage, "found 0",
        "distributed_strategy.kv_replicator");
  fails(Replaced(kLlama, "fuse_qkv: True", "fuse_qkv: 3"), Errc::kUsage, "expected True or False",
        "model.fuse_qkv");
  fails(Replaced(kLlama, "model_source: hf", "model_source: nemo"), Errc::kUnsupported,
        "found \"nemo\", expected hf or megatron", "model_source");
  fails("a: 1\n", Errc::kUsage, "not a configuration of NxD Training", "");
  fails("[1, 2]\n", Errc::kUsage, "not a configuration of NxD Training", "");
  fails("a: [\n", Errc::kCorrupt, "line", "");
  fails("model:\n  tensor_model_parallel_size: 8\n", Errc::kUsage, "a configuration of NeMo", "");
  fails("actor_rollout_ref: {}\n", Errc::kUsage, "a configuration of verl, not of NxD Training",
        "");
}

TEST(NxdtConfig, ExpressionsAreNotWorkedOut) {
  const std::string text = Replaced(kLlama, "parallel_size: 32", "parallel_size: ${x.y}");
  const auto error = ExpectError(ParseNxdtConfig(text, "c.yaml"), Errc::kUsage, "${x.y}");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->hint(), "an expression of OmegaConf: name a copy of the file with its value");
}

}  // namespace
}  // namespace nxdkit::nxd
