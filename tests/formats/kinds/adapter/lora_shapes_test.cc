// Adapters as other programs save them: names with wrappers, tied bases, DoRA, single tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::Expected;
using testing_util::ExpectError;
using testing_util::Find;
using testing_util::LoraTensor;
using testing_util::OpsWorkshop;
using testing_util::PeftFiles;
using testing_util::Read;
using testing_util::SomeValues;
using testing_util::TinyLlama;
using testing_util::TinyQwen3;

const std::string kQuery = "model.layers.1.self_attn.q_proj";
const std::string kEmbedding = "base_model.model.model.embed_tokens.weight";
const std::string kHead = "base_model.model.lm_head.weight";
constexpr int64_t kVocab = 64, kHidden = 32;

class LoraShapes : public ::testing::Test {
 protected:
  LoraShapes() { Begin("model", TinyLlama()); }

  void Begin(const std::string& name, const testing_util::TinyModel& model) {
    model_ = shop_.MakeModel(name, model);
    peft_ = {};
    peft_.Add("self_attn.q_proj", 4, kHidden, kHidden);
  }
  void BeginTied(const std::string& name = "tied") {
    Begin(name, TinyQwen3());
    peft_ = {};
    const auto base = OpenAndBind(model_, &kHf, {});
    ASSERT_TRUE(base.ok());
    const Shape shape = Find(*base, kQuery + ".weight").shape;
    peft_.Add("self_attn.q_proj", base->model->config.layers, shape[0], shape[1]);
  }

  Result<BoundArtifact> Merged() {
    InputHints hints;
    hints.lora = peft_.Write(shop_ / "adapter");
    return OpenAndBind(model_, &kHf, hints);
  }
  std::optional<Error> ExpectBad(Errc code, const std::string& part) {
    return ExpectError(Merged(), code, part);
  }
  std::vector<float> Base(const std::string& tensor) {
    const auto base = OpenAndBind(model_, &kHf, {});
    EXPECT_TRUE(base.ok());
    const StoredTensor& stored = Find(*base, tensor);
    return Read(stored, 0, *ElementCount(stored.shape));
  }
  // The query projection of layer 1, as the adapter of rank 4 makes it.
  std::vector<float> Query(float scale = 1.5F) {
    const std::string name = "base_model.model." + kQuery;
    return Expected(Base(kQuery + ".weight"), peft_.tensors[name + ".lora_A.weight"],
                    peft_.tensors[name + ".lora_B.weight"], scale);
  }
  void ExpectQuery(const std::vector<float>& expected) {
    const auto merged = Merged();
    ASSERT_TRUE(merged.ok()) << merged.error().ToString();
    warnings_ = merged->artifact.warnings;
    const StoredTensor& stored = Find(*merged, kQuery + ".weight");
    EXPECT_TRUE(Read(stored, 0, *ElementCount(stored.shape)) == expected);
  }
  // Each name changed by `change`.
  void Rename(const std::function<std::string(std::string)>& change) {
    std::map<std::string, LoraTensor> renamed;
    for (auto& [name, tensor] : peft_.tensors) renamed[change(name)] = std::move(tensor);
    peft_.tensors = std::move(renamed);
  }
  static std::string Replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }
  LoraTensor Whole(int seed, int64_t rows = kVocab) const {
    return {{rows, kHidden}, SomeValues(static_cast<size_t>(rows * kHidden), seed)};
  }

  OpsWorkshop shop_;
  std::string model_;
  PeftFiles peft_;
  std::vector<std::string> warnings_;
};

// DataParallel, torch.compile, FSDP, and trainers that remove PEFT's own prefix, or half of it.
TEST_F(LoraShapes, WhatIsAroundTheModelIsTakenAway) {
  const std::vector<float> expected = Query();
  const PeftFiles plain = peft_;
  for (const char* prefix : {"base_model.model.module.", "base_model.model._orig_mod.",
                             "module.base_model.model.", "base_model.model._fsdp_wrapped_module.",
                             "_orig_mod.base_model.model.", "base_model.model.base_model.model."}) {
    peft_ = plain;
    Rename([&](const std::string& name) { return Replaced(name, "base_model.model.", prefix); });
    ExpectQuery(expected);
    EXPECT_THAT(warnings_, Contains(HasSubstr("taken without what is around them"))) << prefix;
  }
  peft_ = plain;
  Rename([&](const std::string& name) { return Replaced(name, "base_model.model.", ""); });
  ExpectQuery(expected);
  EXPECT_THAT(warnings_, IsEmpty()) << "as PEFT's key_mapping and diffusers have them";
  peft_ = plain;
  Rename([&](const std::string& name) {
    return Replaced(name, "model.model.model.", "model.model.");
  });
  ExpectQuery(expected);
  EXPECT_THAT(warnings_, Contains(HasSubstr("lack the model's \"model.\"")))
      << "of a base without a head";
}

TEST_F(LoraShapes, TheConfigurationNamesModulesAsTheWrappedModelDid) {
  std::vector<float> expected = Query(3.0F);
  Rename([&](const std::string& name) {
    return Replaced(name, "base_model.model.", "base_model.model.module.");
  });
  peft_.config["target_modules"] = Json::array();
  for (int layer = 0; layer < 4; ++layer)
    peft_.config["target_modules"].push_back("module.model.layers." + std::to_string(layer) +
                                             ".self_attn.q_proj");
  peft_.config["alpha_pattern"] = {{"module." + kQuery, 12}};
  ExpectQuery(expected);
}

// A pattern anchored to the beginning of a name would match nothing without the wrapper, and the
// adapter would be merged with another scale.
TEST_F(LoraShapes, KeysOfWholeNamesAreNotTakenOutOfAWrapper) {
  Rename([&](const std::string& name) {
    return Replaced(name, "base_model.model.", "base_model.model.module.");
  });
  for (const std::string& key : {"^module." + kQuery, std::string("module\\..*q_proj")}) {
    peft_.config["alpha_pattern"] = {{key, 12}};
    const auto error = ExpectBad(Errc::kUnsupported, "before the model's wrapper was taken off");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), "alpha_pattern");
  }
}

TEST_F(LoraShapes, AKeyThatFitsNothingIsNamed) {
  const std::vector<float> expected = Query();
  peft_.config["alpha_pattern"] = {{"q_porj", 64}};
  ExpectQuery(expected);
  EXPECT_THAT(warnings_,
              Contains(HasSubstr("alpha_pattern names q_porj, which is not an adapted module")));
}

TEST_F(LoraShapes, TheAdaptersNameMayBeInTheNames) {
  const std::vector<float> expected = Query();
  Rename([](const std::string& name) { return Replaced(name, ".weight", ".default.weight"); });
  ExpectQuery(expected);
  Rename([](const std::string& name) {
    return name.find("layers.1.") == std::string::npos ? name
                                                       : Replaced(name, ".default.", ".other.");
  });
  const auto error = ExpectBad(Errc::kUnsupported, "two adapters are in one file");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("default and other"));
}

TEST_F(LoraShapes, WrappersOfWholeModulesAreTakenAway) {
  const std::vector<float> whole = SomeValues(kVocab * kHidden, 7);
  peft_.config["modules_to_save"] = {"lm_head"};
  peft_.tensors["base_model.model.lm_head.modules_to_save.default.weight"] = Whole(7);
  peft_.tensors["base_model.model.lm_head.original_module.weight"] = Whole(8);
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_TRUE(Read(Find(*merged, "base_model.model.lm_head.modules_to_save.default.weight"), 0,
                   kVocab * kHidden) == whole);
  EXPECT_THAT(merged->artifact.warnings,
              Contains(HasSubstr("1 tensor is the base's own and is left out")));
}

// A reward model: PEFT names both heads that it knows for classification.
TEST_F(LoraShapes, HeadsThatTheBaseLacksAreNamed) {
  peft_.config["modules_to_save"] = {"classifier", "score"};
  ExpectQuery(Query());
  EXPECT_THAT(warnings_,
              Contains(HasSubstr("modules_to_save names score, which the base does not have")));
}

TEST_F(LoraShapes, PatternsAreRegularExpressions) {
  peft_.config["alpha_pattern"] = {{R"(.*\.layers\.[12]\..*)", 12}};
  ExpectQuery(Query(3.0F));
  peft_.config["use_rslora"] = true;
  ExpectQuery(Query(static_cast<float>(12 / std::sqrt(4.0))));
}

// As PEFT 0.21 adds them: A and B are added to the embedding stored with them.
TEST_F(LoraShapes, AnEmbeddingBesideItsAdapterIsAddedTo) {
  peft_.config["target_modules"] = {"q_proj", "embed_tokens"};
  const std::string module = "base_model.model.model.embed_tokens";
  peft_.tensors[module + ".base_layer.weight"] = Whole(3);
  const std::vector<float> a = SomeValues(4 * kHidden, 4), b = SomeValues(kVocab * 4, 5);
  LoraTensor& of_a = peft_.tensors[module + ".lora_embedding_A"] = {{4, kVocab}, b};
  LoraTensor& of_b = peft_.tensors[module + ".lora_embedding_B"] = {{kHidden, 4}, a};
  for (size_t k = 0; k < 4; ++k) {  // transposed
    for (size_t i = 0; i < kVocab; ++i) of_a.values[k * kVocab + i] = b[i * 4 + k];
    for (size_t j = 0; j < kHidden; ++j) of_b.values[j * 4 + k] = a[k * kHidden + j];
  }
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_TRUE(Read(Find(*merged, "model.embed_tokens.weight"), 0, kVocab * kHidden) ==
              Expected(SomeValues(kVocab * kHidden, 3), {{4, kHidden}, a}, {{kVocab, 4}, b}, 1.5F));
}

TEST_F(LoraShapes, DoraScalesRowsToTheirMagnitudes) {
  peft_.config["use_dora"] = true;
  std::vector<float> expected = Query();
  for (int layer = 0; layer < 4; ++layer)
    peft_.tensors["base_model.model.model.layers." + std::to_string(layer) +
                  ".self_attn.q_proj.lora_magnitude_vector"] = {{kHidden},
                                                                SomeValues(kHidden, layer)};
  const std::vector<float> magnitudes = SomeValues(kHidden, 1);
  for (size_t i = 0; i < kHidden; ++i) {
    double squares = 0;
    for (size_t j = 0; j < kHidden; ++j)
      squares += static_cast<double>(expected[i * kHidden + j]) * expected[i * kHidden + j];
    const float factor = magnitudes[i] / static_cast<float>(std::sqrt(squares));
    for (size_t j = 0; j < kHidden; ++j) expected[i * kHidden + j] *= factor;
  }
  ExpectQuery(expected);
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok());
  const std::vector<float> part(expected.begin() + 37, expected.begin() + 137);
  EXPECT_TRUE(Read(Find(*merged, kQuery + ".weight"), 37, 100) == part);
  peft_.tensors.erase("base_model.model." + kQuery + ".lora_magnitude_vector");
  ExpectBad(Errc::kCorrupt, "no lora_magnitude_vector beside it");
}

TEST_F(LoraShapes, TokensTakeThePlaceOfRows) {
  peft_.config["trainable_token_indices"] = {3, 63};
  peft_.tensors["base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"] =
      Whole(9, 2);
  std::vector<float> expected = Base("model.embed_tokens.weight");
  const std::vector<float> rows = SomeValues(2 * kHidden, 9);
  std::copy_n(rows.begin(), kHidden, expected.begin() + 3 * kHidden);
  std::copy_n(rows.begin() + kHidden, kHidden, expected.begin() + 63 * kHidden);
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  const StoredTensor& stored = Find(*merged, "model.embed_tokens.weight");
  EXPECT_TRUE(Read(stored, 0, kVocab * kHidden) == expected);
  EXPECT_TRUE(Read(stored, 100, 50) ==
              std::vector<float>(expected.begin() + 100, expected.begin() + 150));
  peft_.config["trainable_token_indices"] = {3, 64};
  ExpectBad(Errc::kUnsupported, "names token 64, the base has 64");
  peft_.config["trainable_token_indices"] = {3};
  ExpectBad(Errc::kCorrupt, "shape [2, 32] found, [1, 32] expected");
}

TEST_F(LoraShapes, EqualCopiesOfATiedEmbeddingAreOneParameter) {
  BeginTied();
  peft_.config["modules_to_save"] = {"embed_tokens", "lm_head"};
  peft_.tensors[kEmbedding] = Whole(3);
  peft_.tensors[kHead] = Whole(3);
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_TRUE(Read(Find(*merged, kEmbedding), 0, kVocab * kHidden) ==
              SomeValues(kVocab * kHidden, 3));
  peft_.tensors[kHead].values[5] += 1;
  const auto error = ExpectBad(Errc::kUnsupported, "the adapter has trained two");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), kHead);
  EXPECT_THAT(error->message(), HasSubstr(kEmbedding));
  EXPECT_THAT(error->hint(), HasSubstr("lm_head.weight of its own"));
}

// PEFT gives a module of modules_to_save a copy of its own, unless it is told to keep them tied.
TEST_F(LoraShapes, OneNameOfATiedEmbeddingIsTakenWhereItIsBoth) {
  for (const auto& [name, module] :
       {std::pair(kHead, "lm_head"), std::pair(kEmbedding, "embed_tokens")}) {
    BeginTied(module);
    peft_.config["modules_to_save"] = {module};
    peft_.tensors[name] = Whole(3);
    const auto error = ExpectBad(Errc::kUnsupported, "without ensure_weight_tying");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->tensor(), "model.embed_tokens.weight");
    peft_.config["ensure_weight_tying"] = true;
    const auto merged = Merged();
    ASSERT_TRUE(merged.ok()) << merged.error().ToString();
    EXPECT_TRUE(Read(Find(*merged, name), 0, 9) == std::vector<float>(SomeValues(9, 3)));
  }
}

// save_embedding_layers: they were not trained, and PEFT loads them into the base's own.
TEST_F(LoraShapes, EmbeddingsThatNobodyAskedForAreTakenWithAWarning) {
  BeginTied();
  peft_.tensors[kHead] = Whole(3);
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_THAT(merged->artifact.warnings, Contains(HasSubstr("modules_to_save does not name it")));
  peft_.tensors[kHead] = Whole(3, kVocab + 8);
  ExpectBad(Errc::kUnsupported, "72 rows found, the base has 64: its vocabulary was resized");
}

// An adapter with a name, and a trainer's checkpoints.
TEST_F(LoraShapes, AnAdapterOneFolderDeeperIsNamed) {
  for (const std::string inner : {"/default", "/checkpoint-100"}) {
    InputHints hints;
    hints.lora = shop_ / ("run" + inner);
    peft_.Write(hints.lora + inner);
    const auto error =
        ExpectError(OpenAndBind(model_, &kHf, hints), Errc::kUnsupported, "no LoRA adapter");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->hint(), "there is one deeper: name " + hints.lora + inner);
  }
}

TEST_F(LoraShapes, AnAdapterOfATiedHeadIsNamedAsSuch) {
  BeginTied();
  peft_.config["target_modules"] = {"q_proj", "lm_head"};
  peft_.AddPair("base_model.model.lm_head", kVocab, kHidden, 4);
  ExpectBad(Errc::kUnsupported, "the adapter changes the head, which is the base's embedding too");
}

}  // namespace
}  // namespace nxdkit::ops
