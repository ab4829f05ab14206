// A folder as seen by a vLLM Neuron engine's loader, by names and sizes: one fault after the other.
// Random configurations against a port of the loader: tests/interop/neuron_interop.py.
#include "formats/ops/verify/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/ops/verify/serving.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing_util::ExpectError;
using testing_util::FileOf;
using testing_util::Serving;
using testing_util::TinyModel;
using Tensors = testing_util::MadeTensors;
using vllm_neuron::Target;

// hidden 32, intermediate 48, 8 query and 4 key heads of 4, vocabulary 64; two cores.
TEST_F(Serving, AFolderThatFitsIsServed) {
  const auto report = Judge(All());
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->checks, Contains("names: all 21 tensors that the loader asks for are here"));
  // Each core has embedding and head 64, a layer 512 + 512 + 3 * 768 + 64, the norm 32.
  const uint64_t elements = 2 * 32 * 32 + 2 * (32 * (16 + 16) + 16 * 32 + 3 * 32 * 24 + 64) + 32;
  EXPECT_EQ(report->most_bytes, 2 * elements);
  EXPECT_EQ(report->least_bytes, report->most_bytes);
  ASSERT_THAT(report->loads, SizeIs(2 + 2 * 7 + 1));
  const LoadedParam& qkv = report->loads[1];
  EXPECT_EQ(qkv.name, "model.layers.0.self_attn.qkv_proj_weight");
  EXPECT_THAT(qkv.shape, ElementsAre(32, 32));
  EXPECT_THAT(qkv.from, ElementsAre("model.layers.0.self_attn.q_proj.weight",
                                    "model.layers.0.self_attn.k_proj.weight",
                                    "model.layers.0.self_attn.v_proj.weight"));
  const LoadedParam& next = report->loads[1 + 7];  // in the next layer
  EXPECT_EQ(next.name, "model.layers.1.self_attn.qkv_proj_weight");
  EXPECT_EQ(next.from[1], key_);
  EXPECT_EQ(report->loads[1 + 2 * 7].name, "model.norm.weight");
}

// 24 query and 4 key heads over 12 / 4 = 3, and over 6: heads 4 and 5 do not exist.
TEST_F(Serving, KeysThatBecomeZerosAreNamedByTensorLayerAndRank) {
  TinyModel moe{.family = "qwen3_moe", .layers = 2, .heads = 24, .kv_heads = 4, .experts = 4};
  config_ = Json::parse(moe.Config());
  config_["moe_intermediate_size"] = 24;
  config_["vocab_size"] = 60;
  request_.geometry.tp = 6;
  const auto report = Judge(All());
  ASSERT_THAT(Texts(report), SizeIs(5));
  EXPECT_EQ(report->findings[0].check, "key heads");
  const Finding& zeros = report->findings[3];
  EXPECT_EQ(zeros.check, "zeros");
  EXPECT_EQ(zeros.param, key_);
  EXPECT_EQ(zeros.rank, 4);
  EXPECT_EQ(zeros.count, 2);
  EXPECT_THAT(zeros.message, HasSubstr("layer 1: zeros instead of key heads on cores 4 to 5"));
  EXPECT_THAT(report->loads[1].zero_cores, ElementsAre(4, 5));
  request_.geometry.tp = 12;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
}

// Ranges past the end are empty, and the loader's last step compares shapes.
TEST_F(Serving, KeysThatADenseModelDoesNotHaveEndTheLoader) {
  config_["num_attention_heads"] = 24;
  config_["vocab_size"] = 60;
  request_.geometry.tp = 6;
  const auto report = Judge(All());
  EXPECT_THAT(
      Texts(report),
      ElementsAre(
          "key heads: : 4 key heads and tp 6: neither divides the other, so the loader fails with "
          "an error on the shape of model.layers.0.self_attn.qkv_proj_weight on ranks 4 to 5"));
  EXPECT_THAT(report->loads, IsEmpty());
}

TEST_F(Serving, OddHeadsAreAWarning) {
  request_.geometry.tp = 8;
  const auto report = Judge(All());
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->warnings,
              ElementsAre("1 query head on each core (8 over tp 8): the vendor's porting guide "
                          "asks for an even number of query heads on a core; it is loaded anyway"));
}

TEST_F(Serving, SizesWithoutALayoutAreAFindingAndNothingIsLoaded) {
  request_.geometry.tp = 3;
  const auto report = Judge(All());
  EXPECT_THAT(Texts(report),
              ElementsAre("heads: : 8 query heads cannot be split over tp 3",
                          "key heads: : 4 key heads and tp 3: neither divides the other"));
  EXPECT_THAT(report->loads, IsEmpty());
}

TEST_F(Serving, RowsOfTheHeadThatNoCoreHasAreFound) {
  config_["vocab_size"] = 65;
  const auto report = Judge(All());
  ASSERT_THAT(Texts(report), SizeIs(1));
  EXPECT_THAT(Texts(report)[0], HasSubstr("lost: lm_head.weight: rows 64 to 64 of 65"));
  EXPECT_EQ(report->findings[0].count, 1);
  EXPECT_THAT(report->checks, Contains("embed_tokens: 33 rows a core, 1 of zeros at the end"));
  config_["tie_word_embeddings"] = true;  // the head is cut short, the embedding is not
  EXPECT_THAT(Texts(Judge(All())), ElementsAre(HasSubstr("lost: lm_head.weight: rows 64 to 64")));
}

// 2^20 rows of 2^15, twice, and half of it on each core: 64 GiB.
TEST_F(Serving, WeightsThatNoCoreHoldsAreFound) {
  config_["vocab_size"] = 1 << 20;
  config_["hidden_size"] = 1 << 15;
  const Tensors none = {{"model.norm.weight", {.shape = {1}}}};
  EXPECT_THAT(Texts(Judge(none)),
              Contains("memory: : the weights alone take 68.7 GB of a core with 25.8 GB"));
  request_.target = Target::kTrn3;
  EXPECT_THAT(Texts(Judge()), Not(Contains(HasSubstr("memory: "))));
}

TEST_F(Serving, AnElementTypeThatIsNotPredictedIsTold) {
  TinyModel moe{.family = "qwen3_moe", .layers = 1, .heads = 8, .kv_heads = 4, .experts = 4};
  config_ = Json::parse(moe.Config());
  request_.dtype = Dtype::kF16;
  EXPECT_THAT(Judge(All())->warnings,
              Contains("experts are rounded to BF16 first and then to F16: not predicted"));
}

TEST_F(Serving, MissingAndIgnoredNamesAreFound) {
  Tensors tensors = All();
  EXPECT_THAT(Judge(tensors)->checks, Contains(HasSubstr("layout: every element")));
  tensors.erase(key_);
  tensors[layer_ + "self_attn.q_proj.bias"] = {.shape = {32}};
  EXPECT_THAT(Judge(tensors)->checks, Not(Contains(HasSubstr("layout: every element"))));
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("ignored: " + layer_ +
                              "self_attn.q_proj.bias: no parameter of the engine has this name: it "
                              "is passed over",
                          "missing: " + key_ + ": the loader asks for it and fails"));
}

// The family has the parameter, and the engine has no parameter for it.
TEST_F(Serving, BiasesAreLost) {
  config_["attention_bias"] = true;
  const std::vector<std::string> found = Texts(Judge(All()));
  EXPECT_THAT(found, SizeIs(8));
  EXPECT_THAT(found, Contains("lost: " + layer_ +
                              "self_attn.o_proj.bias: the engine has no parameter for it: it is "
                              "passed over"));
}

TEST_F(Serving, AStaleFileBesideTheIndexIsFound) {
  folder_.Write("config.json", config_.dump());
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  for (const auto& [name, made] : All())
    index["weight_map"][name] = "model-00001-of-00001.safetensors";
  folder_.Write("model-00001-of-00001.safetensors", FileOf(All()));
  folder_.Write("model.safetensors.index.json", index.dump());
  EXPECT_THAT(Texts(Judge()), IsEmpty());
  folder_.Write("model-00003-of-00003.safetensors", FileOf({{key_, {.shape = {16, 32}}}}));
  const auto report = Judge();
  EXPECT_THAT(
      Texts(report),
      ElementsAre("stale: : not in the index; a loader that reads every *.safetensors loads "
                  "1 tensor from it, 1 of them instead of the index's: " +
                  key_));
  EXPECT_EQ(report->findings[0].file, folder_.Path("model-00003-of-00003.safetensors"));
  folder_.Write("model-00003-of-00003.safetensors", "cut");
  EXPECT_THAT(Texts(Judge()), ElementsAre(HasSubstr("stale: : not in the index, and unreadable")));
  std::filesystem::remove(folder_.Path("model-00001-of-00001.safetensors"));
  EXPECT_THAT(Texts(Judge()),
              Contains("missing: : the index names this file, and it is not there"));
}

TEST_F(Serving, TensorsThatAreThereTwiceAreFound) {
  folder_.Write("other.safetensors", FileOf({{key_, {.shape = {16, 32}}}}));
  EXPECT_THAT(Texts(Judge(All())), ElementsAre(HasSubstr("twice: " + key_)));
}

TEST_F(Serving, PartsOfADistributedSaveAreFound) {
  folder_.Write("shard-00001-model-00001-of-00004.safetensors",
                FileOf({{"beside", {.shape = {1}}}}));
  EXPECT_THAT(Texts(Judge(All())), Contains(HasSubstr("sharded: : a part of a distributed save")));
}

TEST_F(Serving, FusedExpertsAreFound) {
  TinyModel moe{.family = "qwen3_moe", .layers = 1, .heads = 8, .kv_heads = 4, .experts = 4};
  config_ = Json::parse(moe.Config());
  Tensors tensors = All();
  const std::string experts = "model.layers.0.mlp.experts.";
  const Shape one = tensors.at(experts + "0.gate_proj.weight").shape;
  for (int e = 0; e < 4; ++e)
    for (const char* name : {"gate", "up"})
      tensors.erase(fmt::format("{}{}.{}_proj.weight", experts, e, name));
  tensors[experts + "gate_up_proj"] = {.shape = {4, 2 * one[0], one[1]}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("fused: " + experts +
                          "gate_up_proj: a name in the spelling \"memory\", which the loader does "
                          "not look for: it asks for 8 tensors, such as " +
                          experts + "0.gate_proj.weight"));
  for (int e = 0; e < 4; ++e) tensors.erase(fmt::format("{}{}.down_proj.weight", experts, e));
  tensors.erase(experts + "gate_up_proj");
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre("missing: " + experts +
                                                 "0.gate_proj.weight: the loader asks for it and "
                                                 "fails (and 11 more of the layer's experts)"));
}

TEST_F(Serving, ExpertsOnNoCoreAreFound) {
  TinyModel moe{.family = "qwen3_moe", .layers = 1, .heads = 8, .kv_heads = 4, .experts = 5};
  config_ = Json::parse(moe.Config());
  request_.geometry.ep = 2;
  const auto report = Judge(All());
  ASSERT_THAT(Texts(report), SizeIs(2));
  EXPECT_THAT(Texts(report)[1],
              "lost: model.layers.0.mlp.experts.4.gate_proj.weight: 3 tensors of layer 0's experts "
              "are on no core");
}

TEST_F(Serving, AnotherShapeIsFoundAndItsMeaningTold) {
  const struct {
    std::string name;
    Shape shape;
    const char* meaning;
  } rows[] = {
      {key_, {15, 32}, "the parameter that is made of it has another shape too"},
      {key_, {16, 31}, "the parameter that is made of it has another shape too"},
      {key_, {17, 32}, "the loader ignores the rest, without an error"},
      {"model.embed_tokens.weight", {63, 32}, "the loader takes zeros for the rows"},
      {"lm_head.weight", {63, 32}, "the parameter that is made of it has another shape too"},
      {"model.norm.weight", {31}, "the parameter that is made of it has another shape too"}};
  for (const auto& row : rows) {
    Tensors tensors = All();
    const std::string expected = ShapeText(tensors[row.name].shape);
    tensors[row.name].shape = row.shape;
    const auto report = Judge(tensors);
    ASSERT_THAT(Texts(report), SizeIs(1)) << row.name;
    EXPECT_EQ(report->findings[0].check, "shape");
    EXPECT_EQ(report->findings[0].found, ShapeText(row.shape));
    EXPECT_EQ(report->findings[0].expected, expected);
    EXPECT_THAT(report->findings[0].message, HasSubstr(row.meaning)) << row.name;
  }
}

TEST_F(Serving, CastsAreToldAndNoFindings) {
  Tensors tensors = All();
  tensors[key_].dtype = "F32";
  const auto report = Judge(tensors);
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->warnings, ElementsAre("1 tensor is F32 and cast to BF16 as it is loaded"));
}

TEST_F(Serving, WhatIsNotKnownIsAnError) {
  config_["model_type"] = "qwen2";
  EXPECT_TRUE(ExpectError(Judge({{"a", {.shape = {1}}}}), Errc::kUnsupported,
                          "how vLLM Neuron holds a qwen2 model is not known"));
  std::filesystem::remove(folder_.Path("model.safetensors"));
  config_["model_type"] = "llama";
  folder_.Write("config.json", config_.dump());
  EXPECT_TRUE(ExpectError(Judge(), Errc::kNotFound, "no *.safetensors"));
  std::filesystem::remove(folder_.Path("config.json"));
  EXPECT_TRUE(ExpectError(Judge(), Errc::kNotFound, "no config.json"));
  request_.geometry.tp = 20'000;
  EXPECT_TRUE(ExpectError(Judge(), Errc::kUsage, "20000 cores are requested, the limit is 10000"));
}

}  // namespace
}  // namespace nxdkit::ops
