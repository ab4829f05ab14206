// A folder's values, as a vLLM Neuron engine would take them: ties, KV scales, FP8 weights, schemes
// of quantisation.
#include "formats/ops/verify/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/ops/verify/serving.h"

namespace nxdkit::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_util::Serving;
using Tensors = testing_util::MadeTensors;
using vllm_neuron::Target;

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
  tensors[layer_ + "self_attn.k_scale"].fill = '\0';
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre("KV scale: " + layer_ +
                                                 "self_attn.k_scale: 0 found: the engine keeps 1 / "
                                                 "scale"));
  tensors.erase(layer_ + "self_attn.k_scale");
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre("KV scale: " + layer_ +
                                                 "self_attn.k_scale: 3 other KV scales are here; "
                                                 "without this one the engine takes 1.0"));
}

TEST_F(Serving, KvScalesOfModelOptAreNotAskedFor) {
  Tensors tensors = All();
  tensors[layer_ + "self_attn.k_proj.k_scale"] = {.shape = {1}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("KV scale: " + layer_ +
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
    tensors[key_] = {.dtype = "F8_E4M3", .shape = {16, 32}, .fill = '\x38'};
    tensors[layer_ + "self_attn.k_proj.weight_scale"] = {.dtype = "F32", .shape = {}};
    tensors[layer_ + "self_attn.k_proj.input_scale"] = {.dtype = "F32", .shape = {}};
    return tensors;
  }
};

// 0x77 is 240, 0x78 is 256, 0xfe is -448.
TEST_F(Fp8Serving, NumbersThatTheChipDoesNotHaveAreFound) {
  Tensors tensors = Quantised();
  tensors[key_].bytes = {{0, '\x77'}, {35, '\x78'}, {40, '\xfe'}};
  const auto report = Judge(tensors);
  ASSERT_THAT(Texts(report), SizeIs(1));
  const Finding& finding = report->findings[0];
  EXPECT_EQ(finding.check, "FP8 range");
  EXPECT_EQ(finding.tensor, key_);
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
      tensors[key_] = {.dtype = "F8_E4M3",
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
  tensors[key_].bytes = {{31, '\x7f'}};
  request_.target = Target::kTrn3;
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("FP8 range: " + key_ + ": 1 are NaN; the first is nan at [0, 31]"));
}

TEST_F(Fp8Serving, AWeightWithoutItsScalesIsFound) {
  Tensors tensors = Quantised();
  tensors.erase(layer_ + "self_attn.k_proj.input_scale");
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("missing: " + layer_ +
                          "self_attn.k_proj.input_scale: an FP8 weight without input_scale"));
}

TEST_F(Fp8Serving, ItsBytesAreThoseOfFp8) {
  Tensors tensors = Quantised();
  for (const char* name : {"q", "v"})
    tensors[layer_ + "self_attn." + name + "_proj.weight"].dtype = "F8_E4M3";
  const uint64_t whole = Judge(All())->most_bytes;
  const auto report = Judge(tensors);
  EXPECT_EQ(whole - report->most_bytes, 32u * 32u);  // qkv of one layer, a byte an element less
}

TEST_F(Fp8Serving, WithoutAConfigurationTheScalesAreLost) {
  config_.erase("quantization_config");
  EXPECT_THAT(Texts(Judge(Quantised())),
              ElementsAre(HasSubstr("dtype: " + key_ + ": F8_E4M3 and no quantization_config")));
}

TEST_F(Fp8Serving, AScaleWithoutItsWeightIsFound) {
  Tensors tensors = Quantised();
  tensors[key_] = {.shape = {16, 32}};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("ignored: " + layer_ +
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

}  // namespace
}  // namespace nxdkit::ops
