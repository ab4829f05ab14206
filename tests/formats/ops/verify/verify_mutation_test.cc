// One flipped element of each class, and the finding of ckpt-verify.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "formats/models/sample_model.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

using ops::Finding;
using ops::Kind;
using ::testing::HasSubstr;
using testing_util::FindingsOf;
using testing_util::FindStored;
using testing_util::FlipElement;
using testing_util::OpsWorkshop;
using testing_util::Stored;

ops::OutputOptions Options(int tp) {
  ops::OutputOptions options;
  options.Set("tp", tp);
  return options;
}

// The only finding of an artifact.
Finding Only(const std::string& path, const std::optional<std::string>& against = {}) {
  const std::vector<Finding> findings = FindingsOf(path, against);
  EXPECT_EQ(findings.size(), 1u) << path;
  return findings.empty() ? Finding() : findings.front();
}

class Mutations : public ::testing::Test {
 protected:
  const OpsWorkshop workshop_;
  const std::string llama_ = workshop_.MakeModel("llama", testing_util::TinyLlama());
  const std::string qwen3_ = workshop_.MakeModel("qwen3", testing_util::TinyQwen3());
};

TEST_F(Mutations, AReplicatedNorm) {
  const std::string set = workshop_.Make("set", llama_, &ops::kHf, &ops::kNxd, Options(2));
  EXPECT_TRUE(FindingsOf(set).empty());
  const std::string name = "model.layers.2.post_attention_layernorm.weight";
  FlipElement(FindStored(set, &ops::kNxd, name, 1), 5);
  const Finding finding = Only(set);
  EXPECT_EQ(finding.check, "replica");
  EXPECT_EQ(finding.tensor, name);
  EXPECT_EQ(finding.param, name);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.head, std::nullopt);
  EXPECT_EQ(finding.index, Shape({5}));
  EXPECT_EQ(finding.count, 1);
  EXPECT_THAT(finding.file, HasSubstr("tp_rank_01"));
  EXPECT_THAT(finding.message, HasSubstr("1 element differs from the other copy of " + name));
  EXPECT_NE(finding.expected, finding.found);
}

TEST_F(Mutations, ACopyOfAKeyHeadOnEachHardware) {
  const std::string model = workshop_.MakeModel("four", {.kv_heads = 4});
  for (const models::Hardware hardware : {models::Hardware::kTrn1, models::Hardware::kTrn2}) {
    for (const nxd::QkvStyle style : {nxd::QkvStyle::kLinear, nxd::QkvStyle::kFused}) {
      for (const int layer : {0, 3}) {
        ops::OutputOptions options = Options(8);  // key heads 0 to 3, twice
        options.Set("hw", Word(hardware));
        options.Set("qkv", Word(style));
        const bool trn1 = hardware == models::Hardware::kTrn1;
        const bool fused = style == nxd::QkvStyle::kFused;
        const std::string set = workshop_.Make(
            "set" + std::to_string(trn1) + std::to_string(fused) + std::to_string(layer), model,
            &ops::kHf, &ops::kNxd, options);
        const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
        const std::string name = prefix + (fused ? "qkv_proj.weight_qkv" : "qkv_proj.weight_k");
        // Rank 5 holds key head 1 on trn1, 2 on trn2; one query head of 4 rows precedes it when
        // fused. Row 2 of the head, column 1.
        const int64_t row = (fused ? 4 : 0) + 2;
        FlipElement(FindStored(set, &ops::kNxd, name, 5), row * 32 + 1);
        const Finding finding = Only(set);
        EXPECT_EQ(finding.check, "replica") << finding.message;
        EXPECT_EQ(finding.tensor, name);
        EXPECT_EQ(finding.param, prefix + "k_proj.weight");
        EXPECT_EQ(finding.rank, 5);
        EXPECT_EQ(finding.head, trn1 ? 1 : 2);
        EXPECT_EQ(finding.index, Shape({*finding.head * 4 + 2, 1}));
        EXPECT_EQ(finding.count, 1);
      }
    }
  }
}

TEST_F(Mutations, PaddingOfTheVocabulary) {
  // 64 rows over 3 ranks: 22 each, 2 of rank 2 are padding.
  const std::string bundle = workshop_.Make("b", llama_, &ops::kHf, &ops::kRollout, Options(3));
  FlipElement(FindStored(bundle, &ops::kRollout, "lm_head.weight", 2), 21 * 32 + 3);
  FlipElement(FindStored(bundle, &ops::kRollout, "lm_head.weight", 2), 21 * 32 + 4);
  const Finding finding = Only(bundle);
  EXPECT_EQ(finding.check, "padding");
  EXPECT_EQ(finding.tensor, "lm_head.weight");
  EXPECT_EQ(finding.param, "");
  EXPECT_EQ(finding.rank, 2);
  EXPECT_EQ(finding.index, Shape({21, 3}));
  EXPECT_EQ(finding.count, 2);
  EXPECT_THAT(finding.message, HasSubstr("2 elements of padding must be 0 (0x0000)"));
}

TEST_F(Mutations, ColumnsOfAPaddingHead) {
  // 8 query heads over 16 ranks: each second slot is padding.
  const std::string bundle = workshop_.Make("b", llama_, &ops::kHf, &ops::kRollout, Options(16));
  const std::string name = "layers.1.self_attn.o_proj.o_proj.weight";
  for (const Stored& stored : testing_util::StoredTensors(bundle, &ops::kRollout)) {
    if (stored.tensor.name != name || testing_util::BitsOf(stored, 0) != 0) continue;
    FlipElement(stored, 7 * 4 + 2);
    const Finding finding = Only(bundle);
    EXPECT_EQ(finding.check, "padding");
    EXPECT_EQ(finding.rank, stored.rank);
    EXPECT_EQ(finding.index, Shape({7, 2}));
    return;
  }
  FAIL() << "no rank has a padding head";
}

TEST_F(Mutations, ARankTensor) {
  const std::string bundle = workshop_.Make("b", llama_, &ops::kHf, &ops::kRollout, Options(2));
  const std::string name = "layers.3.self_attn.rank_util.rank";
  FlipElement(FindStored(bundle, &ops::kRollout, name, 1), 0);
  const Finding finding = Only(bundle);
  EXPECT_EQ(finding.check, "rank tensor");
  EXPECT_EQ(finding.tensor, name);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.expected, "1 (0x00000001)");
  EXPECT_EQ(finding.found, "0 (0x00000000)");
}

TEST_F(Mutations, TheTiedPair) {
  const std::string bundle = workshop_.Make("b", qwen3_, &ops::kHf, &ops::kRollout, Options(2));
  FlipElement(FindStored(bundle, &ops::kRollout, "lm_head.weight", 1), 3 * 32 + 9);
  const Finding finding = Only(bundle);
  EXPECT_EQ(finding.check, "tied");
  EXPECT_EQ(finding.tensor, "lm_head.weight");
  EXPECT_EQ(finding.param, "model.embed_tokens.weight");
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.index, Shape({32 + 3, 9}));
}

TEST_F(Mutations, NoConversionDropsADamagedCopy) {
  const std::string set = workshop_.Make("set", llama_, &ops::kHf, &ops::kNxd, Options(2));
  const std::string name = "model.norm.weight";
  FlipElement(FindStored(set, &ops::kNxd, name, 1), 0);
  for (const auto& run : {ops::Convert, ops::DryRun}) {
    const auto report = run(OpsWorkshop::Request(set, &ops::kNxd, workshop_ / "out", &ops::kHf));
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Errc::kCorrupt);
    EXPECT_EQ(report.error().tensor(), name);
    EXPECT_EQ(report.error().rank(), 1);
    EXPECT_FALSE(std::filesystem::exists(workshop_ / "out"));
    EXPECT_FALSE(std::filesystem::exists(workshop_ / "out.partial"));
  }
}

// --- every weight element counts

struct Layout {
  const char* name;
  const Kind* kind;
  int tp;
  nxd::QkvStyle style;
};

class AgainstOriginal : public ::testing::TestWithParam<Layout> {};

// Flips one element of every stored tensor in turn. The value itself shows where it belongs: the
// sample model's values follow from parameter and index.
TEST_P(AgainstOriginal, FindsAnyFlippedElementByItsLogicalPlace) {
  const OpsWorkshop workshop;
  const testing_util::TinyModel tiny = {
      .family = "qwen3", .layers = 1, .head_dim = 8, .vocab = 18, .tied = true};
  const std::string model = workshop.MakeModel("model", tiny);
  ops::OutputOptions options;
  if (GetParam().kind != &ops::kHf) options.Set("tp", GetParam().tp);
  if (GetParam().kind == &ops::kNxd) {
    options.Set("qkv", Word(GetParam().style));
    options.Set("hw", Word(models::Hardware::kTrn1));
  }
  const std::string made = workshop.Make("made", model, &ops::kHf, GetParam().kind, options);
  std::mt19937 random(1);
  int checked = 0;
  for (const Stored& stored : testing_util::StoredTensors(made, GetParam().kind)) {
    if (stored.tensor.dtype != Dtype::kBF16) continue;
    const int64_t element =
        static_cast<int64_t>(random() % static_cast<uint64_t>(*ElementCount(stored.tensor.shape)));
    const uint16_t bits = testing_util::BitsOf(stored, element);
    FlipElement(stored, element);
    std::vector<Finding> values;
    for (const Finding& finding : FindingsOf(made, model))
      if (finding.check == "value") values.push_back(finding);
    FlipElement(stored, element);
    if (bits == 0) {  // padding: no parameter to name
      ASSERT_EQ(values.size(), 1u);
      EXPECT_EQ(values[0].param, "");
      continue;
    }
    ASSERT_EQ(values.size(), 1u) << stored.tensor.name;
    const Finding& finding = values[0];
    EXPECT_EQ(finding.tensor, stored.tensor.name);
    EXPECT_EQ(finding.file, stored.file);
    if (stored.rank >= 0) {
      EXPECT_EQ(finding.rank, stored.rank);
    }
    EXPECT_EQ(finding.count, 1);
    int64_t index = finding.index[0];
    if (finding.index.size() == 2)
      index = index * (finding.param.find("down_proj") != std::string::npos ? 48
                       : finding.param.find("o_proj") != std::string::npos  ? 64
                                                                            : 32) +
              finding.index[1];
    EXPECT_EQ(models::SampleBf16(testing_util::kSeed, finding.param, static_cast<uint64_t>(index)),
              bits)
        << finding.ToString();
    const bool by_rows = finding.param.find("q_proj") != std::string::npos ||
                         finding.param.find("k_proj") != std::string::npos ||
                         finding.param.find("v_proj") != std::string::npos;
    if (by_rows) {
      EXPECT_EQ(finding.head, finding.index[0] / 8) << finding.ToString();
    }
    if (finding.param.find("o_proj") != std::string::npos) {
      EXPECT_EQ(finding.head, finding.index[1] / 8) << finding.ToString();
    }
    ++checked;
  }
  EXPECT_GE(checked, 10);
}

INSTANTIATE_TEST_SUITE_P(All, AgainstOriginal,
                         ::testing::Values(Layout{"Hf", &ops::kHf, 1, {}},
                                           Layout{"Nxd2", &ops::kNxd, 2, nxd::QkvStyle::kSeparate},
                                           Layout{"Nxd4Fused", &ops::kNxd, 2,
                                                  nxd::QkvStyle::kFused},
                                           Layout{"Rollout2", &ops::kRollout, 2, {}},
                                           Layout{"Rollout8", &ops::kRollout, 8, {}},
                                           Layout{"Rollout4", &ops::kRollout, 4, {}}),
                         [](const auto& row) { return row.param.name; });

// A different order of heads is more than a difference of numbers.
TEST(AgainstOther, NamesTheMissingParameter) {
  const OpsWorkshop workshop;
  const std::string small = workshop.MakeModel("small", testing_util::TinyLlama());
  testing_util::TinyModel deeper = testing_util::TinyLlama();
  deeper.layers = 5;
  const std::string large = workshop.MakeModel("large", deeper);
  const Finding fewer = Only(small, large);
  EXPECT_EQ(fewer.tensor, "model.layers.4.self_attn.q_proj.weight");
  EXPECT_THAT(fewer.message, HasSubstr("the parameter is missing in " + small));
  const Finding more = Only(large, small);
  EXPECT_THAT(more.message, HasSubstr("the parameter is missing in " + small));
}

TEST(AgainstOther, NamesAnotherShape) {
  const OpsWorkshop workshop;
  const std::string small = workshop.MakeModel("small", testing_util::TinyLlama());
  testing_util::TinyModel wider = testing_util::TinyLlama();
  wider.vocab = 65;
  const std::string large = workshop.MakeModel("large", wider);
  const Finding finding = Only(small, large);
  EXPECT_EQ(finding.tensor, "model.embed_tokens.weight");
  EXPECT_THAT(finding.message, HasSubstr("shape [64, 32] here, [65, 32] in " + large));
}

}  // namespace
}  // namespace nxdkit
