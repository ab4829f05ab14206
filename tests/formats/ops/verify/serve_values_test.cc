// A folder's values, as a vLLM Neuron engine would read them: ties, KV scales, FP8 weights and
// their scales, schemes of quantisation.
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
using ::testing::Not;
using ::testing::SizeIs;
using testing_util::Made;
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

// Two bytes of 0x40 are BF16 3.0; two zeros are 0, which has no reciprocal.
TEST_F(Serving, KvScalesAreLookedAt) {
  Tensors tensors = WithKvScales(All());
  const auto good = Judge(tensors);
  EXPECT_THAT(Texts(good), IsEmpty());
  EXPECT_THAT(
      good->warnings,
      ElementsAre(HasSubstr("4 KV scales are used if the KV cache is FP8, as 1 / scale in BF16: "
                            "they are constants of the compiled graph")));
  tensors[layer_ + "self_attn.k_scale"].fill = '\0';
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("KV scale: " + layer_ +
                          "self_attn.k_scale: 0 found: the engine stores 1 / scale"));
  tensors.erase(layer_ + "self_attn.k_scale");
  EXPECT_THAT(
      Texts(Judge(tensors)),
      ElementsAre(
          "KV scale: " + layer_ +
          "self_attn.k_scale: there are 3 other KV scales; without this one the engine uses 1.0"));
}

// A slice of a tensor without dimensions raises an exception.
TEST_F(Serving, AKvScaleWithoutDimensionsIsFound) {
  for (const Shape& shape : {Shape{}, Shape{2}}) {
    Tensors tensors = WithKvScales(All());
    tensors[layer_ + "self_attn.k_scale"] = {.shape = shape};
    const auto report = Judge(tensors);
    ASSERT_THAT(Texts(report), SizeIs(1));
    EXPECT_EQ(report->findings[0].check, "KV scale");
    EXPECT_EQ(report->findings[0].tensor, layer_ + "self_attn.k_scale");
    EXPECT_EQ(report->findings[0].expected, "[1]");
  }
}

TEST_F(Serving, AnAnnouncedKvCacheWithoutScalesIsFound) {
  config_["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                    {"kv_cache_scheme", {{"num_bits", 8}}}};
  EXPECT_THAT(Texts(Judge(All())),
              ElementsAre("KV scale: : kv_cache_scheme announces a quantised KV cache, but there "
                          "is no KV scale: the engine uses 1.0 in every layer"));
  EXPECT_THAT(Texts(Judge(WithKvScales(All()))), IsEmpty());
}

TEST_F(Serving, KvScalesOfModelOptAreNotAskedFor) {
  Tensors tensors = All();
  Made& scale = tensors[layer_ + "self_attn.k_proj.k_scale"] = {.shape = {}, .fill = '\x40'};
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("KV scale: " + layer_ +
                          "self_attn.k_proj.k_scale: 3 found: the loader "
                          "asks for " +
                          layer_ + "self_attn.k_scale, and uses 1.0 without it"));
  scale.bytes = {{0, '\x80'}, {1, '\x3f'}};  // 1.0
  EXPECT_THAT(Texts(Judge(tensors)), IsEmpty());
  tensors = All();
  tensors["model.layers.2.self_attn.k_scale"] = {.shape = {1}};  // only layers 0 and 1 exist
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre(HasSubstr("ignored: model.layers.2.self_attn.k_scale")));
}

class Fp8Serving : public Serving {
 protected:
  Fp8Serving() {
    config_["quantization_config"] = {{"quant_method", "modelopt"},
                                      {"quant_algo", "FP8"},
                                      {"kv_cache_quant_algo", "FP8"},
                                      {"exclude_modules", {"lm_head"}}};
  }
  // As ModelOpt writes them: all codes are 1.0 (0x38), and every scale is 0.747.
  Tensors Quantised() const {
    Tensors tensors = WithKvScales(All());
    for (const auto& [name, made] : All()) {
      if (!name.ends_with("_proj.weight")) continue;
      const std::string module = name.substr(0, name.rfind('.'));
      tensors[name] = {.dtype = "F8_E4M3", .shape = made.shape, .fill = '\x38'};
      tensors[module + ".weight_scale"] = {.dtype = "F32", .shape = {}};
      tensors[module + ".input_scale"] = {.dtype = "F32", .shape = {}};
    }
    return tensors;
  }
  const std::string input_scale_ = layer_ + "self_attn.k_proj.input_scale";
};

// Seven projections a layer; up_proj's input is gate_proj's.
TEST_F(Fp8Serving, AFolderOfModelOptIsServed) {
  const auto report = Judge(Quantised());
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->checks,
              Contains("names: all 47 tensors that the loader asks for are here, 26 scales of FP8 "
                       "weights among them"));
  EXPECT_THAT(report->checks, Contains("FP8: 14 weights were checked, and have no NaN"));
  EXPECT_THAT(report->checks,
              Contains("FP8: 26 scales are numbers above 0, in the form that the loader expects"));
}

// 0x77 is 240, 0x78 is 256, 0xfe is -448, which is in nearly every tensor of ModelOpt.
TEST_F(Fp8Serving, NumbersThatTheLoaderBringsIntoRangeAreAWarning) {
  Tensors tensors = Quantised();
  tensors[key_].bytes = {{0, '\x77'}, {35, '\x78'}, {40, '\xfe'}};
  const auto report = Judge(tensors);
  EXPECT_THAT(Texts(report), IsEmpty());
  EXPECT_THAT(report->warnings,
              Contains(HasSubstr("the loader rescales on trn2: weights by 240 / 448, rounded to "
                                 "E4M3 again, and their scales by 448 / 240; 2 codes above 240")));
  request_.target = Target::kTrn3;
  EXPECT_THAT(Judge()->warnings, Not(Contains(HasSubstr("rescales"))));
}

// Each code at each place of a word, and of the rest after the last one.
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
      const auto found = std::ranges::find(report->findings, "FP8 NaN", &Finding::check);
      ASSERT_EQ(found != report->findings.end(), (code & 0x7f) == 0x7f) << code << " at " << at;
      const int size = code & 0x7f;
      EXPECT_THAT(report->warnings,
                  Contains(HasSubstr(size > 0x77 && size < 0x7f ? "; 1 codes above 240"
                                                                : "; 0 codes above 240")))
          << code << " at " << at;
      if (found == report->findings.end()) continue;
      EXPECT_THAT(found->index, ElementsAre(at / 3, at % 3)) << code;
    }
}

TEST_F(Fp8Serving, NansAreFoundOnEveryChip) {
  Tensors tensors = Quantised();
  tensors[key_].bytes = {{30, '\x7e'}, {31, '\x7f'}};
  for (const Target target : {Target::kTrn2, Target::kTrn3}) {
    request_.target = target;
    const auto report = Judge(tensors);
    EXPECT_THAT(Texts(report),
                ElementsAre("FP8 NaN: " + key_ + ": 1 are NaN; the first is at [0, 31]"));
    EXPECT_EQ(report->findings[0].count, 1);
  }
  request_.values = false;
  EXPECT_THAT(Texts(Judge()), IsEmpty());
}

TEST_F(Fp8Serving, MissingScalesAreFound) {
  Tensors tensors = Quantised();
  tensors.erase(layer_ + "mlp.up_proj.input_scale");  // no module reads it
  EXPECT_THAT(Texts(Judge(tensors)), IsEmpty());
  tensors.erase(input_scale_);
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("missing: " + input_scale_ + ": the loader asks for it and fails"));
  tensors.erase(layer_ + "mlp.gate_proj.weight_scale");
  EXPECT_THAT(Texts(Judge(tensors)),
              ElementsAre("missing: " + input_scale_ +
                          ": the loader asks for it and fails (and 1 more of the layer's scales)"));
}

TEST_F(Fp8Serving, ScalesThatTheLoaderDoesNotTakeAreFound) {
  const struct {
    Made made;
    const char* message;
  } rows[] = {{{.dtype = "F32", .shape = {2}}, "F32 [2] found, expected one"},
              {{.dtype = "U8", .shape = {}}, "U8 [] found, expected one"},
              {{.dtype = "F32", .shape = {1}, .fill = '\x7f', .bytes = {{2, '\xff'}}}, "nan found"},
              {{.dtype = "F32", .shape = {}, .fill = '\0'}, "0 found"},
              {{.dtype = "F32", .shape = {}, .fill = '\x40'}, "of another of q_proj"}};
  for (const auto& row : rows) {
    Tensors tensors = Quantised();
    tensors[input_scale_] = row.made;
    const auto report = Judge(tensors);
    ASSERT_THAT(Texts(report), SizeIs(1)) << row.message;
    EXPECT_EQ(report->findings[0].check, "FP8 scale");
    EXPECT_EQ(report->findings[0].tensor, input_scale_);
    EXPECT_THAT(report->findings[0].message, HasSubstr(row.message));
  }
}

// Each weight has its own; o_proj has an input of its own.
TEST_F(Fp8Serving, OtherScalesMayDiffer) {
  Tensors tensors = Quantised();
  tensors[layer_ + "self_attn.k_proj.weight_scale"].fill = '\x40';
  tensors[layer_ + "self_attn.o_proj.input_scale"].fill = '\x40';
  tensors[layer_ + "self_attn.v_proj.weight_scale"].shape = {1};
  EXPECT_THAT(Texts(Judge(tensors)), IsEmpty());
}

TEST_F(Fp8Serving, AProjectionThatIsNotQuantisedIsFound) {
  Tensors tensors = Quantised();
  tensors[layer_ + "self_attn.o_proj.weight"].dtype = "BF16";
  EXPECT_THAT(Texts(Judge(tensors)),
              Contains("dtype: " + layer_ +
                       "self_attn.o_proj.weight: BF16 is not the scheme's FP8, which the engine "
                       "expects for every projection, whatever exclude_modules says"));
  tensors = Quantised();
  tensors["lm_head.weight"].dtype = "F8_E4M3";
  EXPECT_THAT(
      Texts(Judge(tensors)),
      ElementsAre(HasSubstr("dtype: lm_head.weight: F8_E4M3 and not a projection of a layer")));
}

TEST_F(Fp8Serving, ItsBytesAreThoseOfFp8) {
  const auto report = Judge(Quantised());
  config_.erase("quantization_config");
  const uint64_t whole = Judge(All())->most_bytes;
  // A layer has qkv, o and three of the MLP, a byte an element less.
  EXPECT_EQ(whole - report->most_bytes, 2u * (32 * 32 + 16 * 32 + 3 * 32 * 24));
}

// Older versions of ModelOpt write it there, and vLLM itself looks.
TEST_F(Fp8Serving, TheConfigurationMayLieBesideConfigJson) {
  const Json said = config_["quantization_config"];
  config_.erase("quantization_config");
  EXPECT_THAT(Texts(Judge(Quantised())), Contains(HasSubstr("F8_E4M3 and no quantization_config")));
  Json file = {{"producer", {{"name", "modelopt"}}}, {"quantization", said}};
  folder_.Write("hf_quant_config.json", file.dump());
  EXPECT_THAT(Texts(Judge(Quantised())), IsEmpty());
}

TEST_F(Fp8Serving, WithoutAConfigurationTheScalesAreLost) {
  config_.erase("quantization_config");
  EXPECT_THAT(Texts(Judge(Quantised())),
              Contains(HasSubstr("dtype: " + key_ + ": F8_E4M3 and no quantization_config")));
}

TEST_F(Fp8Serving, AScaleWithoutItsWeightIsFound) {
  Tensors tensors = Quantised();
  tensors["lm_head.weight_scale"] = {.dtype = "F32", .shape = {}};
  EXPECT_THAT(Texts(Judge(tensors)), ElementsAre(HasSubstr("ignored: lm_head.weight_scale: the "
                                                           "scale of no weight of the scheme")));
}

struct Scheme {
  const char* name;
  const char* family;
  Json config;
  const char* finding;
};

class Schemes : public Serving, public ::testing::WithParamInterface<Scheme> {};

TEST_P(Schemes, AreRefused) {
  config_["model_type"] = GetParam().family;
  config_["quantization_config"] = GetParam().config;
  EXPECT_THAT(Texts(Judge(All())), ElementsAre(HasSubstr(GetParam().finding)));
}

// Changed by the keys that are not null, minus those that are.
Json ModelOpt(const Json& changes) {
  Json config = {{"quant_method", "modelopt"},
                 {"quant_algo", "FP8"},
                 {"kv_cache_quant_algo", "FP8"},
                 {"exclude_modules", {"lm_head"}}};
  config.merge_patch(changes);
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    All, Schemes,
    ::testing::Values(
        Scheme{"ModelOptOfQwen3", "qwen3", ModelOpt(Json::object()),
               "modelopt FP8: the engine accepts it only for llama models"},
        Scheme{"NoKvCache", "llama", ModelOpt({{"kv_cache_quant_algo", nullptr}}),
               "modelopt FP8: the engine fails at start: kv_cache_quant_algo is not there"},
        Scheme{"OtherKvCache", "llama", ModelOpt({{"kv_cache_quant_algo", "NVFP4"}}),
               "modelopt FP8: the engine fails at start: kv_cache_quant_algo is NVFP4"},
        Scheme{
            "QuantisedHead", "llama", ModelOpt({{"exclude_modules", {"model.embed*"}}}),
            "modelopt FP8: the engine fails at start: no pattern of exclude_modules is lm_head's"},
        Scheme{"NoExclusions", "llama", ModelOpt({{"exclude_modules", nullptr}}),
               "no pattern of exclude_modules is lm_head's"},
        Scheme{"NestedWithoutKvCache",
               "llama",
               {{"quant_method", "modelopt"},
                {"quantization", {{"quant_algo", "FP8"}, {"exclude_modules", {"lm_head"}}}}},
               "kv_cache_quant_algo is not there"},
        Scheme{"CompressedTensors",
               "llama",
               {{"quant_method", "compressed-tensors"},
                {"config_groups", {{"group_0", {{"weights", {{"num_bits", 8}}}}}}}},
               "the engine refuses compressed-tensors schemes for weights at start"},
        Scheme{"BlockFp8", "llama", {{"quant_method", "fp8"}}, "fp8: it is none of the schemes"}),
    [](const auto& row) { return row.param.name; });

TEST_F(Fp8Serving, FormsOfTheSchemeThatAreTaken) {
  const Json flat = config_["quantization_config"];
  const Json forms[] = {flat,
                        ModelOpt({{"exclude_modules", {"lm*"}}}),
                        ModelOpt({{"quant_algo", "fp8"}, {"quant_method", "ModelOpt"}}),
                        {{"quant_method", "modelopt"}, {"quantization", flat}},
                        {{"producer", {{"name", "modelopt"}}}, {"quantization", flat}}};
  for (const Json& form : forms) {
    config_["quantization_config"] = form;
    EXPECT_THAT(Texts(Judge(Quantised())), IsEmpty()) << form;
  }
}

}  // namespace
}  // namespace nxdkit::ops
