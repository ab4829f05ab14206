// What a vLLM Neuron engine's loader would make of a folder: one fault after the other. Drawn
// configurations against a port of the loader: tests/interop/neuron_interop.py.
#include "formats/ops/verify/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lib/json/json.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/formats/scratch.h"
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
using testing_util::TinyModel;
using vllm_neuron::Target;

// A tensor of a folder that is written by hand: all of its bytes are `fill`, but for some.
struct Made {
  std::string dtype = "BF16";
  Shape shape;
  char fill = '\x3f';
  std::map<size_t, char> bytes = {};  // by their place
};
using Tensors = std::map<std::string, Made>;

std::string FileOf(const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, made] : tensors) {
    const int64_t element = made.dtype == "F32" ? 4 : made.dtype == "BF16" ? 2 : 1;
    std::string own(static_cast<size_t>(*ElementCount(made.shape) * element), made.fill);
    for (const auto& [at, byte] : made.bytes) own.at(at) = byte;
    header[name] = {{"dtype", made.dtype},
                    {"shape", made.shape},
                    {"data_offsets", {data.size(), data.size() + own.size()}}};
    data += own;
  }
  const std::string text = header.dump();
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text + data;
}

class Serving : public ::testing::Test {
 protected:
  Serving() { request_.geometry.tp = 2; }

  // Every tensor of the model.
  Tensors All() const {
    const auto config = models::ParseConfig(config_.dump(), "config.json");
    EXPECT_TRUE(config.ok()) << config.error().ToString();
    const auto model = models::MakeModel(*config);
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    Tensors tensors;
    for (const models::Param& param : model->params) tensors[param.name] = {.shape = param.shape};
    return tensors;
  }

  Result<ServeReport> Judge(const Tensors& tensors) {
    folder_.Write("config.json", config_.dump());
    folder_.Write("model.safetensors", FileOf(tensors));
    return Judge();
  }
  Result<ServeReport> Judge() {
    request_.path = folder_.folder();
    return JudgeServing(request_);
  }

  // "check: tensor: message" of each finding.
  static std::vector<std::string> Texts(const Result<ServeReport>& report) {
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    std::vector<std::string> out;
    if (report.ok())
      for (const Finding& finding : report->findings)
        out.push_back(fmt::format("{}: {}: {}", finding.check, finding.tensor, finding.message));
    return out;
  }

  testing_util::Scratch folder_;
  Json config_ = Json::parse(TinyModel{.layers = 2, .heads = 8, .kv_heads = 4}.Config());
  ServeRequest request_;
};

const std::string kLayer = "model.layers.1.";
const std::string kKey = kLayer + "self_attn.k_proj.weight";

// hidden 32, intermediate 48, 8 query and 4 key heads of 4, vocabulary 64; two cores.
TEST_F(Serving, AFolderThatFitsIsServed) {
  const auto report = Judge(All());
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->checks, Contains("names: all 21 tensors that the loader asks for are here"));
  // Of each core: embedding and head 64, a layer 512 + 512 + 3 * 768 + 64, the norm 32.
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
}

// 24 query and 4 key heads over 12 / 4 = 3, and over 6: heads 4 and 5 are none.
TEST_F(Serving, KeysThatBecomeZerosAreNamedByTensorLayerAndRank) {
  config_["num_attention_heads"] = 24;
  config_["vocab_size"] = 60;
  request_.geometry.tp = 6;
  const auto report = Judge(All());
  ASSERT_THAT(Texts(report), SizeIs(5));
  EXPECT_EQ(report->findings[0].check, "key heads");
  const Finding& zeros = report->findings[3];
  EXPECT_EQ(zeros.check, "zeros");
  EXPECT_EQ(zeros.param, kKey);
  EXPECT_EQ(zeros.rank, 4);
  EXPECT_EQ(zeros.count, 2);
  EXPECT_THAT(zeros.message, HasSubstr("layer 1: zeros instead of key heads on cores 4 to 5"));
  EXPECT_THAT(report->loads[1].zero_cores, ElementsAre(4, 5));
  request_.geometry.tp = 12;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
}

TEST_F(Serving, OddHeadsAreFound) {
  request_.geometry.tp = 8;
  EXPECT_THAT(Texts(Judge(All())),
              ElementsAre("heads: : 1 query head on each core (8 over tp 8); the engine wants an "
                          "even number"));
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
              Contains("memory: : the weights alone take 68.7 GB of a core that has 25.8 GB"));
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
  tensors.erase(kKey);
  tensors[kLayer + "self_attn.q_proj.bias"] = {.shape = {32}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("ignored: " + kLayer +
                              "self_attn.q_proj.bias: no parameter of the engine has this name: it "
                              "is passed over",
                          "missing: " + kKey + ": the loader asks for it and ends"));
}

// The family has the parameter, and the engine has none for it.
TEST_F(Serving, BiasesAreLost) {
  config_["attention_bias"] = true;
  const std::vector<std::string> found = Texts(Judge(All()));
  EXPECT_THAT(found, SizeIs(8));
  EXPECT_THAT(found, Contains("lost: " + kLayer +
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
  folder_.Write("model-00003-of-00003.safetensors", FileOf({{kKey, {.shape = {16, 32}}}}));
  const auto report = Judge();
  EXPECT_THAT(
      Texts(report),
      ElementsAre("stale: : not in the index; a loader that reads every *.safetensors takes "
                  "1 tensors of it, 1 of them instead of the index's: " +
                  kKey));
  EXPECT_EQ(report->findings[0].file, folder_.Path("model-00003-of-00003.safetensors"));
  folder_.Write("model-00003-of-00003.safetensors", "cut");
  EXPECT_THAT(Texts(Judge()), ElementsAre(HasSubstr("stale: : not in the index, and unreadable")));
  std::filesystem::remove(folder_.Path("model-00001-of-00001.safetensors"));
  EXPECT_THAT(Texts(Judge()),
              Contains("missing: : the index names this file, and it is not there"));
}

TEST_F(Serving, TensorsThatAreThereTwiceAreFound) {
  folder_.Write("other.safetensors", FileOf({{kKey, {.shape = {16, 32}}}}));
  EXPECT_THAT(Texts(Judge(All())), ElementsAre(HasSubstr("twice: " + kKey)));
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
                          "gate_up_proj: a name of the spelling \"memory\", which the loader does "
                          "not look for: it asks for 8 tensors, such as " +
                          experts + "0.gate_proj.weight"));
  for (int e = 0; e < 4; ++e) tensors.erase(fmt::format("{}{}.down_proj.weight", experts, e));
  tensors.erase(experts + "gate_up_proj");
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("missing: " + experts +
                          "0.gate_proj.weight: the loader asks for it and ends (and 11 more of the "
                          "layer's experts)"));
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

TEST_F(Serving, AShapeThatIsCutShortIsFound) {
  Tensors tensors = All();
  tensors[kKey].shape = {15, 32};
  const auto report = Judge(tensors);
  ASSERT_THAT(Texts(report), SizeIs(1));
  EXPECT_EQ(report->findings[0].check, "shape");
  EXPECT_EQ(report->findings[0].found, "[15, 32]");
  EXPECT_EQ(report->findings[0].expected, "[16, 32]");
}

TEST_F(Serving, CastsAreToldAndNoFindings) {
  Tensors tensors = All();
  tensors[kKey].dtype = "F32";
  const auto report = Judge(tensors);
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->warnings, ElementsAre("1 tensor is F32 and cast to BF16 as it is loaded"));
}

TEST_F(Serving, ATiedHeadOfOtherValuesIsFound) {
  config_["tie_word_embeddings"] = true;
  Tensors tensors = All();
  EXPECT_THAT(Texts(Judge(tensors)), IsEmpty());
  tensors["lm_head.weight"] = {.shape = {64, 32}};
  const auto equal = Judge(tensors);
  EXPECT_THAT(Texts(equal), IsEmpty());
  EXPECT_THAT(equal->checks, Contains("tied: lm_head.weight is model.embed_tokens.weight"));
  tensors["lm_head.weight"].bytes[4095] = '\x3e';
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("tied: lm_head.weight: the model is tied, and the loader takes "
                          "model.embed_tokens.weight in its place: the two differ"));
  request_.values = false;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
}

// Two bytes of 0x40 are BF16 3.0; of zeros 0, which has no reciprocal.
TEST_F(Serving, KvScalesAreLookedAt) {
  Tensors tensors = All();
  for (const char* layer : {"model.layers.0.", "model.layers.1."})
    for (const char* name : {"self_attn.k_scale", "self_attn.v_scale"})
      tensors[std::string(layer) + name] = {.shape = {1}, .fill = '\x40'};
  const auto good = Judge(tensors);
  EXPECT_THAT(Texts(good), IsEmpty());
  EXPECT_THAT(
      good->warnings,
      ElementsAre(HasSubstr("4 KV scales count where the KV cache is FP8, as BF16(1 / scale): "
                            "they are constants of the compiled graph")));
  tensors[kLayer + "self_attn.k_scale"].fill = '\0';
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre("KV scale: " + kLayer +
                                                 "self_attn.k_scale: 0 found: the engine keeps 1 / "
                                                 "scale"));
  tensors.erase(kLayer + "self_attn.k_scale");
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre("KV scale: " + kLayer +
                                                 "self_attn.k_scale: 3 other KV scales are here; "
                                                 "without this one the engine takes 1.0"));
}

TEST_F(Serving, KvScalesOfModelOptAreNotAskedFor) {
  Tensors tensors = All();
  tensors[kLayer + "self_attn.k_proj.k_scale"] = {.shape = {1}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("KV scale: " + kLayer +
                                    "self_attn.k_proj.k_scale: the loader asks for "
                                    "self_attn.k_scale")));
  tensors = All();
  tensors["model.layers.2.self_attn.k_scale"] = {.shape = {1}};  // there are layers 0 and 1
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("ignored: model.layers.2.self_attn.k_scale")));
}

class Fp8Serving : public Serving {
 protected:
  Fp8Serving() {
    config_["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  }
  // With one quantised weight, whose codes are all 1.0 (0x38).
  Tensors Quantised() const {
    Tensors tensors = All();
    tensors[kKey] = {.dtype = "F8_E4M3", .shape = {16, 32}, .fill = '\x38'};
    tensors[kLayer + "self_attn.k_proj.weight_scale"] = {.dtype = "F32", .shape = {}};
    tensors[kLayer + "self_attn.k_proj.input_scale"] = {.dtype = "F32", .shape = {}};
    return tensors;
  }
};

// 0x77 is 240, 0x78 is 256, 0xfe is -448.
TEST_F(Fp8Serving, NumbersThatTheChipDoesNotHaveAreFound) {
  Tensors tensors = Quantised();
  tensors[kKey].bytes = {{0, '\x77'}, {35, '\x78'}, {40, '\xfe'}};
  const auto report = Judge(tensors);
  ASSERT_THAT(Texts(report), SizeIs(1));
  const Finding& finding = report->findings[0];
  EXPECT_EQ(finding.check, "FP8 range");
  EXPECT_EQ(finding.tensor, kKey);
  EXPECT_EQ(finding.count, 2);
  EXPECT_THAT(finding.index, ElementsAre(1, 3));
  EXPECT_EQ(finding.found, "256");
  EXPECT_EQ(finding.expected, "at most 240");
  EXPECT_EQ(finding.message,
            "2 values above 240, up to 448, are no numbers on trn2; the first is 256 at [1, 3]");
  request_.target = Target::kTrn3;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
  request_.target = Target::kTrn2;
  request_.values = false;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
}

// Each code at each place of a word, and of the rest behind the last one.
TEST_F(Fp8Serving, EveryCodeIsJudged) {
  config_["hidden_size"] = 3;  // 15 * 3 codes: five words and five codes
  for (const int code : {0x00, 0x77, 0x78, 0x7e, 0x7f, 0x80, 0xf7, 0xf8, 0xfe, 0xff})
    for (const size_t at : {0, 3, 7, 8, 39, 40, 44}) {
      Tensors tensors = Quantised();
      tensors[kKey] = {.dtype = "F8_E4M3",
                       .shape = {15, 3},
                       .fill = '\x38',
                       .bytes = {{at, static_cast<char>(code)}}};
      const auto report = Judge(tensors);
      ASSERT_TRUE(report.ok()) << report.error().ToString();
      const auto found = std::ranges::find(report->findings, "FP8 range", &Finding::check);
      ASSERT_EQ(found != report->findings.end(), (code & 0x7f) > 0x77) << code << " at " << at;
      if (found == report->findings.end()) continue;
      EXPECT_THAT(found->index, ElementsAre(at / 3, at % 3)) << code;
    }
}

TEST_F(Fp8Serving, NansAreFoundOnEveryChip) {
  Tensors tensors = Quantised();
  tensors[kKey].bytes = {{31, '\x7f'}};
  request_.target = Target::kTrn3;
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("FP8 range: " + kKey + ": 1 are NaN; the first is nan at [0, 31]"));
}

TEST_F(Fp8Serving, AWeightWithoutItsScalesIsFound) {
  Tensors tensors = Quantised();
  tensors.erase(kLayer + "self_attn.k_proj.input_scale");
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("missing: " + kLayer +
                          "self_attn.k_proj.input_scale: an FP8 weight without input_scale"));
}

TEST_F(Fp8Serving, ItsBytesAreThoseOfFp8) {
  Tensors tensors = Quantised();
  for (const char* name : {"q", "v"})
    tensors[kLayer + "self_attn." + name + "_proj.weight"].dtype = "F8_E4M3";
  const uint64_t whole = Judge(All())->most_bytes;
  const auto report = Judge(tensors);
  EXPECT_EQ(whole - report->most_bytes, 32u * 32u);  // qkv of one layer, a byte an element less
}

TEST_F(Fp8Serving, WithoutAConfigurationTheScalesAreLost) {
  config_.erase("quantization_config");
  EXPECT_THAT(Texts(Judge(Quantised())),
              ElementsAre(HasSubstr("dtype: " + kKey + ": F8_E4M3 and no quantization_config")));
}

TEST_F(Fp8Serving, AScaleWithoutItsWeightIsFound) {
  Tensors tensors = Quantised();
  tensors[kKey] = {.shape = {16, 32}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("ignored: " + kLayer +
                                    "self_attn.k_proj.input_scale: the scale "
                                    "of no weight of the scheme"),
                          HasSubstr("self_attn.k_proj.weight_scale")));
}

struct Scheme {
  const char* name;
  const char* family;
  Json config;
  const char* finding;  // "": none
};

class Schemes : public Serving, public ::testing::WithParamInterface<Scheme> {};

TEST_P(Schemes, AreTakenOrRefused) {
  config_["model_type"] = GetParam().family;
  config_["quantization_config"] = GetParam().config;
  const std::vector<std::string> found = Texts(Judge(All()));
  if (std::string_view(GetParam().finding).empty())
    EXPECT_THAT(found, IsEmpty());
  else
    EXPECT_THAT(found, ElementsAre(HasSubstr(GetParam().finding)));
}

INSTANTIATE_TEST_SUITE_P(
    All, Schemes,
    ::testing::Values(
        Scheme{"ModelOpt", "llama", {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, ""},
        Scheme{"ModelOptOfQwen3",
               "qwen3",
               {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}},
               "modelopt FP8: the engine takes it of llama models alone"},
        Scheme{"CompressedTensors",
               "llama",
               {{"quant_method", "compressed-tensors"},
                {"config_groups", {{"group_0", {{"weights", {{"num_bits", 8}}}}}}}},
               "the engine refuses schemes for weights of compressed-tensors at start"},
        Scheme{"KvCacheAlone",
               "llama",
               {{"quant_method", "compressed-tensors"}, {"kv_cache_scheme", {{"num_bits", 8}}}},
               ""},
        Scheme{"BlockFp8", "llama", {{"quant_method", "fp8"}}, "fp8: it is none of the schemes"}),
    [](const auto& row) { return row.param.name; });

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
  EXPECT_TRUE(ExpectError(Judge(), Errc::kUsage, "20000 cores are asked for, the most are 10000"));
}

}  // namespace
}  // namespace nxdkit::ops
