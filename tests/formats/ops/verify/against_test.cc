// Two artifacts of different element types: one is the other, rounded.
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
using testing_util::VerifyAgainst;

class Against : public ::testing::Test {
 protected:
  std::string MakeSet() const {
    ops::OutputOptions options;
    options.Set("tp", 2);
    options.dtype = Dtype::kBF16;
    return workshop_.Make("set", model_, &ops::kHf, &ops::kNxd, options);
  }
  const testing_util::OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama(), Dtype::kF32);
  const std::string set_ = MakeSet();
};

TEST_F(Against, WhatWasRoundedIsRightOnEitherSide) {
  const auto set = VerifyAgainst(set_, model_);
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(set->findings, IsEmpty());
  EXPECT_THAT(set->checks,
              Contains("every element equals " + model_ + ", converted from F32 to BF16"));
  const auto model = VerifyAgainst(model_, set_);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->findings, IsEmpty());
  EXPECT_THAT(model->checks, Contains("every element of " + set_ +
                                      " equals the one here, rounded from F32 to BF16"));
  EXPECT_THAT(model->warnings, IsEmpty());
}

TEST_F(Against, OneWrongElementOfTheRoundingIsOneFinding) {
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  testing_util::FlipElement(testing_util::FindStored(set_, &ops::kNxd, name, 1), 3);
  const auto report = VerifyAgainst(model_, set_);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].tensor, name);
  EXPECT_EQ(report->findings[0].count, 1);
  EXPECT_THAT(report->findings[0].file, HasSubstr("tp_rank_01"));
  EXPECT_THAT(report->warnings, ElementsAre("the element types differ: compared after " + model_ +
                                            " was rounded from F32 to BF16"));
}

// A widened model holds the other's values exactly: any difference is damage, even where rounding
// would hide it.
TEST_F(Against, DamageBelowTheRoundingOfAWidenedModelIsAFinding) {
  const std::string narrow = workshop_.MakeModel("narrow", testing_util::TinyLlama(), Dtype::kBF16);
  ops::OutputOptions options;
  options.dtype = Dtype::kF32;
  const std::string wide = workshop_.Make("wide", narrow, &ops::kHf, &ops::kHf, options);
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  testing_util::FlipElement(testing_util::FindStored(wide, &ops::kHf, name, -1), 3);
  const auto report = VerifyAgainst(wide, narrow);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].tensor, name);
  EXPECT_EQ(report->findings[0].count, 1);
  EXPECT_THAT(report->warnings, ElementsAre("the element types differ: compared after " + narrow +
                                            " was converted from BF16 to F32"));
}

// Norms that are trained in float32, among bfloat16 weights: few of all elements, all of a tensor.
TEST_F(Against, ATensorThatDiffersAsAWholeWasRounded) {
  const std::string narrow = workshop_.MakeModel("narrow", testing_util::TinyLlama(), Dtype::kBF16);
  ops::OutputOptions options;
  options.dtype = Dtype::kF32;
  const std::string wide = workshop_.Make("wide", narrow, &ops::kHf, &ops::kHf, options);
  const std::string name = "model.layers.0.input_layernorm.weight";
  const auto norm = testing_util::FindStored(wide, &ops::kHf, name, -1);
  for (int64_t i = 0; i < testing_util::TinyLlama().hidden; ++i) testing_util::FlipElement(norm, i);
  const auto report = VerifyAgainst(wide, narrow);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_THAT(report->checks, Contains("every element of " + narrow +
                                       " equals the one here, rounded from F32 to BF16"));
}

}  // namespace
}  // namespace nxdkit
