// LoRA adapters: merged sums compared with a plain loop, for all reads in all pieces; and the
// refused adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/adapter/lora_kernel.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/verify/compare.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::HasSubstr;
using testing_util::Expected;
using testing_util::ExpectError;
using testing_util::Find;
using testing_util::LoraTensor;
using testing_util::OpsWorkshop;
using testing_util::PeftFiles;
using testing_util::Read;
using testing_util::TinyLlama;
using testing_util::TinyMixtral;
using testing_util::TinyModel;
using testing_util::TinyQwen3;

const std::string kQ = "model.layers.1.self_attn.q_proj";

class Lora : public ::testing::Test {
 protected:
  Lora() {
    model_ = shop_.MakeModel("model", TinyLlama());
    peft_.Add("self_attn.q_proj", 4, 32, 32);
    peft_.Add("mlp.down_proj", 4, 32, 48);
  }

  Result<BoundArtifact> Merged(const Kind* kind = &ops::kHf, const std::string& base = "") {
    InputHints hints;
    hints.lora = peft_.Write(shop_ / "adapter");
    return OpenAndBind(base.empty() ? model_ : base, kind, hints);
  }

  std::optional<Error> ExpectBad(Errc code, const std::string& part) {
    return ExpectError(Merged(), code, part);
  }

  // The adapter alone, as shards of two ranks.
  ConvertRequest ToShards() {
    ConvertRequest request =
        OpsWorkshop::Request(peft_.Write(shop_ / "adapter"), &ops::kHf, shop_ / "set", &ops::kNxd);
    request.hints.config = model_ + "/config.json";
    request.options.Set("tp", 2);
    return request;
  }

  LoraTensor& A(const std::string& module = kQ) {
    return peft_.tensors["base_model.model." + module + ".lora_A.weight"];
  }

  OpsWorkshop shop_;
  std::string model_;
  PeftFiles peft_;
};

TEST_F(Lora, IsTheSumOfAPlainLoop) {
  const auto base = OpenAndBind(model_, &ops::kHf, {});
  const auto merged = Merged();
  ASSERT_TRUE(base.ok());
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  for (const std::string& module : {kQ, std::string("model.layers.3.mlp.down_proj")}) {
    const StoredTensor& stored = Find(*merged, module + ".weight");
    const int64_t count = *ElementCount(stored.shape);
    EXPECT_EQ(stored.dtype, Dtype::kF32) << "so that it is rounded once";
    const std::vector<float> expected =
        Expected(Read(Find(*base, module + ".weight"), 0, count), A(module),
                 peft_.tensors["base_model.model." + module + ".lora_B.weight"], 1.5F);
    EXPECT_TRUE(Read(stored, 0, count) == expected) << module;
    // In pieces with arbitrary ends.
    for (int64_t first = 0; first < count; first += 37) {
      const int64_t some = std::min<int64_t>(101, count - first);
      const std::vector<float> part(expected.begin() + first, expected.begin() + first + some);
      EXPECT_TRUE(Read(stored, first, some) == part) << module << " from " << first;
    }
  }
}

// Each expert is a module of its own to PEFT, and a parameter of its own to us, wherever it is
// stored.
TEST_F(Lora, OfExpertsIsMergedWhateverHoldsThem) {
  model_ = shop_.MakeModel("moe", TinyMixtral());
  peft_ = {};
  for (int expert = 0; expert < 4; ++expert) {
    const std::string module = "block_sparse_moe.experts." + std::to_string(expert);
    peft_.Add(module + ".w1", 4, 48, 32);
    peft_.Add(module + ".w2", 4, 32, 48);
  }
  peft_.config["target_modules"] = {"w1", "w2"};
  const auto base = OpenAndBind(model_, &ops::kHf, {});
  ASSERT_TRUE(base.ok());
  OutputOptions options;
  options.Set("tp", 2);
  options.Set("ep", 2);
  const std::string set = shop_.Make("set", model_, &ops::kHf, &ops::kNxd, options);
  const auto merged = Merged();
  const auto of_set = Merged(&ops::kNxd, set);
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  ASSERT_TRUE(of_set.ok()) << of_set.error().ToString();
  const std::string module = "model.layers.2.block_sparse_moe.experts.3.w2";
  const StoredTensor& stored = Find(*merged, module + ".weight");
  const int64_t count = *ElementCount(stored.shape);
  EXPECT_TRUE(Read(stored, 0, count) ==
              Expected(Read(Find(*base, module + ".weight"), 0, count), A(module),
                       peft_.tensors["base_model.model." + module + ".lora_B.weight"], 1.5F));
  const auto findings = CompareArtifacts(*merged, *of_set, {});
  ASSERT_TRUE(findings.ok()) << findings.error().ToString();
  EXPECT_TRUE(findings->empty());
}

TEST_F(Lora, OfExpertsAloneIsRefused) {
  model_ = shop_.MakeModel("moe", TinyMixtral());
  peft_ = {};
  for (int expert = 0; expert < 4; ++expert)
    peft_.Add("block_sparse_moe.experts." + std::to_string(expert) + ".w1", 4, 48, 32);
  peft_.config["target_modules"] = {"w1"};
  ExpectError(DryRun(ToShards()), Errc::kUnsupported,
              "how NxD stores an adapter of this parameter is not known");
}

TEST_F(Lora, WhatIsNotAdaptedIsReadWhereItLies) {
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  const StoredTensor& key = Find(*merged, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(key.dtype, Dtype::kBF16);
  EXPECT_TRUE(key.storage->is_file_range());
}

// A panel of A that does not hold all its columns, and rows that come in several blocks.
TEST_F(Lora, WideWeightsAndHighRanksAreCut) {
  const TinyModel wide{
      .hidden = 64, .intermediate = 520, .layers = 1, .heads = 4, .kv_heads = 4, .head_dim = 16};
  model_ = shop_.MakeModel("wide", wide, Dtype::kF32);
  peft_ = {};
  peft_.Add("mlp.down_proj", 1, 64, 520, 4096);
  peft_.config["r"] = 4096;
  const auto base = OpenAndBind(model_, &ops::kHf, {});
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  const std::string name = "model.layers.0.mlp.down_proj";
  const std::vector<float> expected =
      Expected(Read(Find(*base, name + ".weight"), 0, 64 * 520), A(name),
               peft_.tensors["base_model.model." + name + ".lora_B.weight"], 6.0F / 4096.0F);
  EXPECT_TRUE(Read(Find(*merged, name + ".weight"), 0, 64 * 520) == expected);
}

TEST_F(Lora, TheKernelWritesNothingBesideItsColumns) {
  const std::vector<float> a = testing_util::SomeValues(3 * kLoraTile, 1);
  const std::vector<float> b = testing_util::SomeValues(5 * 3, 2);
  std::vector<float> out(5 * kLoraTile, 9.0F);
  AddLoraTile(a.data(), b.data(), 3, 5, 0.5F, reinterpret_cast<std::byte*>(out.data()),
              kLoraTile * sizeof(float), 2, 7);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < kLoraTile; ++j) {
      float sum = 0;
      for (int k = 0; k < 3; ++k)
        sum += b[static_cast<size_t>(i * 3 + k)] * a[static_cast<size_t>(k * kLoraTile + j)];
      EXPECT_EQ(out[static_cast<size_t>(i * kLoraTile + j)], j >= 2 && j < 7 ? 9 + 0.5F * sum : 9)
          << i << " " << j;
    }
}

TEST_F(Lora, RankMismatchIsNamed) {
  peft_.config["r"] = 8;
  const auto error = ExpectBad(Errc::kCorrupt, "rank 4 found");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("adapter_config.json says 8"));
  EXPECT_THAT(error->tensor(), HasSubstr(".lora_A.weight"));
  EXPECT_THAT(error->file(), HasSubstr("adapter_model.safetensors"));
}

TEST_F(Lora, AWithoutBIsNamed) {
  peft_.tensors.erase("base_model.model." + kQ + ".lora_B.weight");
  const auto error = ExpectBad(Errc::kCorrupt, "has no lora_B");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), kQ);
}

TEST_F(Lora, BWithoutAIsNamed) {
  peft_.tensors.erase("base_model.model." + kQ + ".lora_A.weight");
  ExpectBad(Errc::kCorrupt, "has no lora_A");
}

TEST_F(Lora, AModuleThatWasLostIsNamed) {
  for (const char* part : {".lora_A.weight", ".lora_B.weight"})
    peft_.tensors.erase("base_model.model." + kQ + part);
  const auto error = ExpectBad(Errc::kCorrupt, "no lora_A and lora_B");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), kQ);
}

TEST_F(Lora, ATargetThatTheModelLacksIsNamed) {
  peft_.AddPair("base_model.model.model.layers.4.self_attn.q_proj", 32, 32, 4);
  const auto error =
      ExpectBad(Errc::kUnsupported, "the base has no model.layers.4.self_attn.q_proj.weight");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr(model_));
}

TEST_F(Lora, AModuleThatTheConfigurationDoesNotNameIsRefused) {
  peft_.config["target_modules"] = {"q_proj"};
  const auto error = ExpectBad(Errc::kCorrupt, "does not name");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->tensor(), HasSubstr("down_proj"));
}

TEST_F(Lora, ShapesOfAnotherModelAreNamed) {
  A() = {{4, 31}, testing_util::SomeValues(4 * 31, 1)};
  ExpectBad(Errc::kCorrupt, "shape [4, 31] found, [4, 32] expected");
}

TEST_F(Lora, TruncatedTensorsAreNamed) {
  InputHints hints;
  hints.lora = peft_.Write(shop_ / "adapter");
  PeftFiles::WriteText(hints.lora + "/adapter_model.safetensors",
                       peft_.Bytes().substr(0, peft_.Bytes().size() - 5));
  const auto error = ExpectError(OpenAndBind(model_, &ops::kHf, hints), Errc::kCorrupt, "");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), hints.lora + "/adapter_model.safetensors");
}

TEST_F(Lora, WithoutAConfigurationThereIsNoScale) {
  InputHints hints;
  hints.lora = peft_.Write(shop_ / "adapter");
  std::filesystem::remove(hints.lora + "/adapter_config.json");
  ExpectError(OpenAndBind(model_, &ops::kHf, hints), Errc::kNotFound, "no configuration");
  hints.lora = shop_ / "nothing";
  ExpectError(OpenAndBind(model_, &ops::kHf, hints), Errc::kNotFound, "no such file");
  hints.lora = model_;
  ExpectError(OpenAndBind(model_, &ops::kHf, hints), Errc::kUnsupported, "no LoRA adapter");
}

TEST_F(Lora, TensorsOfOtherKindsOfAdaptersAreRefused) {
  peft_.tensors["base_model.model." + kQ + ".lora_magnitude_vector"] = {
      {32}, testing_util::SomeValues(32, 1)};
  ExpectBad(Errc::kCorrupt, "does not say use_dora");
  peft_.tensors.erase("base_model.model." + kQ + ".lora_magnitude_vector");
  peft_.tensors["base_model.model." + kQ + ".lora_C.weight"] = {{4},
                                                                testing_util::SomeValues(4, 1)};
  ExpectBad(Errc::kUnsupported, "does not know");
}

TEST_F(Lora, WhatIsWholeMustBeAnnounced) {
  peft_.tensors["base_model.model.model.norm.weight"] = {{32}, testing_util::SomeValues(32, 1)};
  const auto error = ExpectBad(Errc::kCorrupt, "neither modules_to_save nor bias");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "base_model.model.model.norm.weight");
  peft_.tensors.erase("base_model.model.model.norm.weight");
  peft_.tensors["base_model.model.lm_head.weight"] = {{64, 32},
                                                      testing_util::SomeValues(64 * 32, 1)};
  peft_.config["modules_to_save"] = {"lm_head"};
  const auto merged = Merged();
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_EQ(Read(Find(*merged, "base_model.model.lm_head.weight"), 5, 1).front(),
            testing_util::SomeValues(64 * 32, 1)[5]);
  peft_.config["modules_to_save"] = {"lm_head", "embed_tokens"};
  ExpectBad(Errc::kCorrupt, "names embed_tokens");
}

TEST_F(Lora, ATiedEmbeddingIsTwoThings) {
  model_ = shop_.MakeModel("tied", TinyQwen3());
  peft_ = {};
  peft_.config["target_modules"] = {"embed_tokens"};
  peft_.tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = {
      {4, 64}, testing_util::SomeValues(256, 1)};
  peft_.tensors["base_model.model.model.embed_tokens.lora_embedding_B"] = {
      {32, 4}, testing_util::SomeValues(128, 2)};
  const auto error = ExpectBad(Errc::kUnsupported, "tie_word_embeddings");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.embed_tokens.weight");
}

TEST_F(Lora, CopiesOfOneAThatDifferAreFound) {
  ConvertRequest request = ToShards();
  EXPECT_TRUE(Convert(request).ok()) << "each projection has its own";
  peft_.Add("self_attn.v_proj", 4, 8, 32);
  peft_.Write(shop_ / "adapter");
  request.options.Set("qkv", Word(nxd::QkvStyle::kLinear));
  request.output = shop_ / "linear";
  const auto error = ExpectError(Convert(request), Errc::kUnsupported,
                                 "NxD has one A for q, k and v, and the adapter has different");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("qkv_proj.lora_A.weight"));
  EXPECT_EQ(error->hint(), "--qkv separate keeps them apart");
  EXPECT_FALSE(std::filesystem::exists(shop_ / "linear"));
}

TEST_F(Lora, RanksOfOneModuleMustBeOne) {
  peft_.Add("self_attn.v_proj", 4, 8, 32, 2);
  peft_.config["rank_pattern"] = {{"v_proj", 2}};
  ConvertRequest request = ToShards();
  request.options.Set("qkv", Word(nxd::QkvStyle::kLinear));
  ExpectError(Convert(request), Errc::kUnsupported, "has one adapter");
  request.options.Set("qkv", Word(nxd::QkvStyle::kSeparate));
  const auto error = ExpectError(Convert(request), Errc::kUnsupported, "no such option");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "rank_pattern");
}

TEST_F(Lora, AShardThatWasLostIsNamed) {
  ConvertRequest request = ToShards();
  ASSERT_TRUE(Convert(request).ok());
  const std::string model = shop_ / "set/model";
  std::filesystem::remove(model + "/dp_rank_00_tp_rank_01_pp_rank_00.pt");
  InputHints hints;
  hints.lora = shop_ / "set";
  const auto error = ExpectError(OpenAndBind(model_, &ops::kHf, hints), Errc::kCorrupt, "tp");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->file(), HasSubstr("set"));
}

}  // namespace
}  // namespace nxdkit::ops
