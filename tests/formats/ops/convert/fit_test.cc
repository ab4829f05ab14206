// --instance: the result of a conversion against the memory of a core.
#include "formats/hardware/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;

class ConversionFit : public ::testing::Test {
 protected:
  ConvertRequest Request(const Kind* to, const std::string& instance, int tp = 2) const {
    OutputOptions options;
    options.Set("tp", tp);
    ConvertRequest request =
        OpsWorkshop::Request(model_, &ops::kHf, workshop_ / "out", to, options);
    request.instance = **hardware::FindInstance(instance);
    return request;
  }
  static uint64_t Row(const hardware::Fit& fit, const std::string& what) {
    for (const hardware::MemoryRow& row : fit.rows)
      if (row.what == what) return row.bytes;
    ADD_FAILURE() << what;
    return 0;
  }
  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(ConversionFit, OfABundleIsTheLargestFileAndTheCache) {
  ConvertRequest request = Request(&ops::kRollout, "trn1.2xlarge");
  request.options.Set("bs", 3);
  request.options.Set("seq", 64);
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_TRUE(report->fit);
  // 4 layers, 4 key/value heads over 2 ranks, heads of 8, bfloat16.
  const testing_util::TinyModel tiny = testing_util::TinyLlama();
  EXPECT_EQ(
      Row(*report->fit, "KV cache"),
      static_cast<uint64_t>(2 * tiny.layers * 3 * 64 * tiny.kv_heads / 2 * tiny.head_dim * 2));
  const uint64_t file = std::filesystem::file_size(
      request.output + "/checkpoint/weights/tp0_sharded_checkpoint.safetensors");
  EXPECT_LE(Row(*report->fit, "weights"), file);
  EXPECT_GT(Row(*report->fit, "weights"), file * 9 / 10) << "all but the header";
}

TEST_F(ConversionFit, OfASetCountsItsParametersInTraining) {
  const auto report = DryRun(Request(&ops::kNxd, "trn1.2xlarge"));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_TRUE(report->fit);
  EXPECT_EQ(Row(*report->fit, "gradients"), 2 * Row(*report->fit, "weights"));
  EXPECT_EQ(Row(*report->fit, "optimizer"), 6 * Row(*report->fit, "weights")) << "dp 1";
}

TEST_F(ConversionFit, WhatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
  ConvertRequest request = Request(&ops::kRollout, "trn1.2xlarge");
  request.options.Set("bs", 1'000'000);
  request.options.Set("seq", 1'000'000);
  for (const bool dry_run : {true, false}) {
    const auto error = ExpectError(dry_run ? DryRun(request) : Convert(request), Errc::kFindings,
                                   "does not fit trn1.2xlarge: weights 0.00 GiB + KV cache");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->hint(), HasSubstr("no instance takes it"));
    EXPECT_FALSE(std::filesystem::exists(request.output));
  }
}

TEST_F(ConversionFit, NamesTheSmallestInstanceThatTakesIt) {
  const auto error = ExpectError(DryRun(Request(&ops::kNxd, "inf2.xlarge")), Errc::kFindings,
                                 "inf2.xlarge is for inference only");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->hint(), "the smallest instance that takes it in this layout is trn1.2xlarge");
}

TEST_F(ConversionFit, NeedsAnOutputForAnInstance) {
  EXPECT_TRUE(ExpectError(DryRun(Request(&ops::kHf, "trn1.2xlarge")), Errc::kUsage,
                          "this output is not laid out for an instance"));
}

// Without --instance: allowed as before.
TEST_F(ConversionFit, WhatDoesNotFitTheMachineHereIsAWarning) {
  ConvertRequest request = Request(&ops::kRollout, "trn1.2xlarge", 4);
  request.here = std::exchange(request.instance, std::nullopt);
  const auto report = DryRun(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_THAT(report->warnings,
              Contains(HasSubstr("this machine is trn1.2xlarge with 2 cores, and what is made does "
                                 "not fit it: 4 ranks, and trn1.2xlarge has 2 cores; --instance "
                                 "auto would refuse it")));
  EXPECT_FALSE(report->fit);
  request.here = **hardware::FindInstance("trn1.32xlarge");
  request.options.Set("tp", 8);
  const auto fits = DryRun(request);
  ASSERT_TRUE(fits.ok()) << fits.error().ToString();
  EXPECT_THAT(fits->warnings, Not(Contains(HasSubstr("this machine"))));
  // Not laid out for an instance: there is nothing to compare.
  request = Request(&ops::kHf, "trn1.2xlarge");
  request.options.Reset("tp");
  request.here = std::exchange(request.instance, std::nullopt);
  EXPECT_TRUE(DryRun(request).ok());
}

}  // namespace
}  // namespace nxdkit::ops
