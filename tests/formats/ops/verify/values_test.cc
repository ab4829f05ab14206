// NaNs, infinities and zeros in a correct structure: named with parameter, file, rank and index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::FindingsOf;
using testing_util::FindStored;
using testing_util::OpsWorkshop;
using testing_util::Stored;
using testing_util::TinyModel;

// Two bytes of the elements of a packed tensor, from `element` on.
void SetElements(const Stored& stored, int64_t element, int64_t count, uint16_t bits) {
  std::fstream file(stored.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(stored.tensor.storage->file_offset() +
                                         stored.tensor.offset +
                                         2 * static_cast<uint64_t>(element)));
  for (int64_t i = 0; i < count; ++i) file.write(reinterpret_cast<const char*>(&bits), 2);
  if (!file.flush()) ADD_FAILURE() << "cannot change " << stored.file;
  file.close();
  testing_util::MendChecksum(*stored.tensor.storage);
}

void SetAll(const Stored& stored, uint16_t bits) {
  SetElements(stored, 0, *ElementCount(stored.tensor.shape), bits);
}

constexpr uint16_t kNan = 0x7fc0;  // in BF16
constexpr uint16_t kInfinity = 0xff80;

class VerifyValues : public ::testing::Test {
 protected:
  std::string MakeSet(int pp = 1) const {
    ops::OutputOptions options;
    options.Set("tp", 2);
    options.Set("pp", pp);
    return workshop_.Make("set", model_, &ops::kHf, &ops::kNxd, options);
  }
  Stored InModel(const std::string& name) const { return FindStored(model_, &ops::kHf, name, -1); }
  const OpsWorkshop workshop_;
  const std::string model_ =
      workshop_.MakeModel("model", {.family = "qwen3", .layers = 2, .biases = true});
};

TEST_F(VerifyValues, AreGoodInAGoodModel) {
  const auto report = testing_util::VerifyAgainst(model_);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_THAT(report->checks,
              Contains("values: no NaN, no infinity, no norm or matrix of zeros alone"));
}

TEST_F(VerifyValues, NansAndInfinitiesAreNamed) {
  SetElements(InModel("model.norm.weight"), 5, 1, kNan);
  SetElements(InModel("model.layers.1.mlp.up_proj.weight"), 32 * 3 + 7, 1, kInfinity);
  SetElements(InModel("model.layers.1.mlp.up_proj.weight"), 32 * 9, 2, kNan);
  const auto findings = FindingsOf(model_);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].check, "not finite");
  EXPECT_EQ(findings[0].param, "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(findings[0].index, (Shape{3, 7}));
  EXPECT_EQ(findings[0].count, 3);
  EXPECT_EQ(findings[0].found, "-inf (0xff80)");
  EXPECT_EQ(findings[0].expected, "a finite number");
  EXPECT_EQ(findings[0].message,
            "2 elements are NaN and 1 element is infinite: found -inf (0xff80) at [3, 7]");
  EXPECT_EQ(findings[1].param, "model.norm.weight");
  EXPECT_EQ(findings[1].file, model_ + "/model.safetensors");
  EXPECT_EQ(findings[1].index, (Shape{5}));
  EXPECT_EQ(findings[1].message, "1 element is NaN: found nan (0x7fc0) at [5]");
}

TEST_F(VerifyValues, MatricesAndNormsOfZerosAreNamed) {
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "lm_head.weight",
                           "model.layers.1.input_layernorm.weight"})
    SetAll(InModel(name), 0x8000);  // minus zero is a zero
  const auto findings = FindingsOf(model_);
  ASSERT_EQ(findings.size(), 3u);
  for (const auto& finding : findings) EXPECT_EQ(finding.check, "zeros");
  EXPECT_EQ(findings[0].param, "model.layers.0.self_attn.q_norm.weight");
  EXPECT_EQ(findings[1].param, "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(findings[1].count, 32);
  EXPECT_EQ(findings[1].message, "all 32 elements are zero");
  EXPECT_EQ(findings[2].param, "lm_head.weight");
}

TEST_F(VerifyValues, WhatMayBeZeroIsGood) {
  SetAll(InModel("model.layers.0.self_attn.q_proj.bias"), 0);
  EXPECT_THAT(FindingsOf(model_), IsEmpty());
  const std::string scores = workshop_.MakeModel("scores", {.family = "qwen3", .score = true});
  SetAll(FindStored(scores, &ops::kHf, "score.weight", -1), 0);
  EXPECT_THAT(FindingsOf(scores), IsEmpty());
  const std::string bert = workshop_.MakeModel("bert", {.family = "bert"});
  SetAll(FindStored(bert, &ops::kHf, "bert.encoder.layer.0.output.LayerNorm.bias", -1), 0);
  EXPECT_THAT(FindingsOf(bert), IsEmpty());
  SetAll(FindStored(bert, &ops::kHf, "bert.encoder.layer.0.output.LayerNorm.weight", -1), 0);
  EXPECT_EQ(FindingsOf(bert).size(), 1u);
}

// One row of zeros is an untrained token; a whole rank of them is not a parameter.
TEST_F(VerifyValues, APartOfZerosIsGood) {
  const std::string set = MakeSet();
  SetAll(FindStored(set, &ops::kNxd, "model.layers.0.self_attn.o_proj.weight", 1), 0);
  EXPECT_THAT(FindingsOf(set), IsEmpty());
}

// In a tensor of two parameters, on the rank that has it.
TEST_F(VerifyValues, ASetNamesParameterAndRank) {
  const std::string set = MakeSet();
  const Stored fused = FindStored(set, &ops::kNxd, "model.layers.1.mlp.gate_up_proj.weight", 1);
  ASSERT_EQ(fused.tensor.shape, (Shape{48, 32}));
  SetElements(fused, 32 * 30 + 2, 1, kNan);  // row 6 of up's second half
  const auto findings = FindingsOf(set);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "not finite");
  EXPECT_EQ(findings[0].rank, 1);
  EXPECT_EQ(findings[0].param, "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(findings[0].index, (Shape{24 + 6, 2}));
  EXPECT_THAT(findings[0].file, HasSubstr("tp_rank_01"));
}

TEST_F(VerifyValues, AComparisonLooksAtThemToo) {
  SetElements(InModel("model.norm.weight"), 5, 1, kNan);
  const std::string set = MakeSet();
  const auto findings = FindingsOf(set, model_);
  ASSERT_EQ(findings.size(), 1u);  // they are equal
  EXPECT_EQ(findings[0].check, "not finite");
}

TEST_F(VerifyValues, NeedNotBeLookedAt) {
  SetElements(InModel("model.norm.weight"), 5, 1, kNan);
  ops::VerifyRequest request;
  request.path = model_;
  request.values = false;
  const auto report = ops::Verify(request);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  for (const std::string& check : report->checks) EXPECT_EQ(check.find("values"), check.npos);
}

// Bytes read for the values are not read again for the checksum, which is still verified.
TEST_F(VerifyValues, ChecksumsAreProvedOnTheWay) {
  const std::string set = MakeSet();
  testing_util::DamageElement(
      FindStored(set, &ops::kNxd, "model.layers.1.mlp.gate_up_proj.weight", 1), 3);
  const auto report = testing_util::VerifyAgainst(set);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].check, "checksum");
}

class ConvertValues : public VerifyValues {
 protected:
  ops::ConvertReport Convert(int tp = 2) const {
    ops::OutputOptions options;
    options.Set("tp", tp);
    const auto report = ops::Convert(
        OpsWorkshop::Request(model_, &ops::kHf, workshop_ / "out", &ops::kNxd, options));
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return report.ok() ? *report : ops::ConvertReport();
  }
};

TEST_F(ConvertValues, AreNotedInFourLines) {
  for (const char* name : {"model.norm.weight", "model.layers.0.mlp.up_proj.weight",
                           "model.layers.0.mlp.down_proj.weight", "model.embed_tokens.weight"})
    SetElements(InModel(name), 1, 1, kNan);
  SetElements(InModel("model.embed_tokens.weight"), 40, 1, kInfinity);
  SetAll(InModel("lm_head.weight"), 0);
  SetAll(InModel("model.layers.1.input_layernorm.weight"), 0);
  SetAll(InModel("model.layers.1.self_attn.q_proj.bias"), 0);
  const auto report = Convert();
  EXPECT_THAT(
      report.warnings,
      ElementsAre("model.embed_tokens.weight: 1 element is NaN and 1 element is infinite as BF16",
                  "model.layers.0.mlp.up_proj.weight: 1 element is NaN as BF16",
                  "2 more parameters have elements that are NaN or infinite: ckpt-verify names "
                  "them",
                  "2 parameters are of nothing but zeros, the first is "
                  "model.layers.1.input_layernorm.weight"));
  EXPECT_EQ(report.values.nan, 4u);
  EXPECT_EQ(report.values.inf, 1u);
  EXPECT_EQ(report.values.not_finite.size(), 4u);
  EXPECT_THAT(report.values.zero,
              ElementsAre("model.layers.1.input_layernorm.weight", "lm_head.weight"));
}

TEST_F(ConvertValues, OfAGoodModelAreNotMentioned) {
  const auto report = Convert();
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_EQ(report.values.nan + report.values.inf, 0u);
  EXPECT_THAT(report.values.zero, IsEmpty());
}

}  // namespace
}  // namespace nxdkit
