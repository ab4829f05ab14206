// From a decided layout to files: their names and order, and the limit of their number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/builder.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/open.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;

constexpr uint64_t kMemory = 64 << 20;

class PlanOutput : public ::testing::Test {
 protected:
  Result<ops::OutputPlan> Plan(const Kind* kind, const ops::OutputOptions& options) const {
    NXDKIT_ASSIGN(const ops::BoundArtifact source, ops::OpenAndBind(model_, &ops::kHf, {}));
    NXDKIT_ASSIGN(const std::unique_ptr<ops::Output> output,
                  ops::DecideOutput(source, *kind, options));
    return ops::PlanOutput(source, *output, "out", kMemory);
  }
  static std::vector<std::string> Paths(const ops::OutputPlan& plan) {
    std::vector<std::string> paths;
    for (const OutputFile& file : plan.files) paths.push_back(file.path);
    return paths;
  }
  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

// A loader recognises a whole tag by its marker, which is written last.
TEST_F(PlanOutput, MarksATagLast) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  const auto plan = Plan(&ops::kNxd, options);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(Paths(*plan), ElementsAre("model/dp_rank_00_tp_rank_00_pp_rank_00.pt",
                                        "model/dp_rank_00_tp_rank_01_pp_rank_00.pt"));
  EXPECT_EQ(plan->texts.back().first, "done");
  EXPECT_FALSE(plan->single_file);
}

TEST_F(PlanOutput, MakesAFileForEachRankOfABundle) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  const auto plan = Plan(&ops::kRollout, options);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(Paths(*plan), ElementsAre("checkpoint/weights/tp0_sharded_checkpoint.safetensors",
                                        "checkpoint/weights/tp1_sharded_checkpoint.safetensors"));
  EXPECT_EQ(plan->texts.front().first, "neuron_config.json");
}

TEST_F(PlanOutput, MakesOneFileOfAStateDict) {
  const auto plan = Plan(&ops::kTorch, {});
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(Paths(*plan), ElementsAre(""));
  EXPECT_TRUE(plan->single_file);
}

// Padding makes any number of ranks possible; memory does not.
TEST_F(PlanOutput, RefusesMoreRanksThanItCanPlan) {
  ops::OutputOptions options;
  options.Set("tp", 99999);
  const auto error = ExpectError(Plan(&ops::kRollout, options), Errc::kLimit, "for 99,999 ranks");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("the cap is 67108864"));
}

}  // namespace
}  // namespace nxdkit
