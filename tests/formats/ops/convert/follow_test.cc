#include "formats/ops/convert/follow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/base/errors.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::ops {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;

class FollowedRun : public ::testing::Test {
 protected:
  FollowedRun() {
    request_.run = run_ / "run";
    request_.interval = milliseconds(10);
    request_.idle = std::chrono::seconds(1);
    request_.settle = std::chrono::seconds(1000);
    request_.warn = [&](const std::string& text) { warnings_.push_back(text); };
  }
  void Write(const std::string& file, const std::string& text = "x") {
    const std::filesystem::path path = request_.run + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // Follows; `at` runs before each look but the first.
  Result<FollowReport> Run(const std::function<void(int)>& at = nullptr) {
    int looks = 0;
    request_.poll = [&, at]() -> Status {
      if (at) at(++looks);
      return OkStatus();
    };
    return Follow(request_, [&](const RunStep& step) -> Status {
      tried_.push_back(step.number);
      return answer_ ? answer_(step) : OkStatus();
    });
  }

  testing_util::TempFolder run_;
  FollowRequest request_;
  std::vector<int64_t> tried_;
  std::vector<std::string> warnings_;
  std::function<Status(const RunStep&)> answer_;
};

TEST_F(FollowedRun, StepsAreFoldersWithANumberAtTheEnd) {
  for (const char* name : {"global_step_10/x", "global_step_9/x", "checkpoint-100/x",
                           "global_step_5.partial-3/x", "huggingface/x", "7/x", "logs_/x"})
    Write(name);
  Write("step_3");  // a file
  const auto steps = FindRunSteps(request_.run);
  ASSERT_TRUE(steps.ok());
  std::vector<std::string> names;
  for (const RunStep& step : *steps) names.push_back(step.name);
  EXPECT_THAT(names, ElementsAre("global_step_9", "global_step_10", "checkpoint-100"));
}

// Oldest first; a step that the tracker does not name yet is waited for.
TEST_F(FollowedRun, WaitsForWhatTheTrackerNames) {
  Write("global_step_20/actor/x");
  Write("global_step_10/actor/x");
  Write("global_step_30/actor/x");
  Write("latest_checkpointed_iteration.txt", "20");
  request_.until = 30;
  const auto report = Run([&](int look) {
    if (look == 2) {
      EXPECT_THAT(tried_, ElementsAre(10, 20));
    }
    if (look == 3) Write("latest_checkpointed_iteration.txt", "30");
  });
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_THAT(tried_, ElementsAre(10, 20, 30));
  EXPECT_EQ(report->made.size(), 3u);
}

TEST_F(FollowedRun, AMarkerMakesAStepWhole) {
  Write("step_1/.metadata");
  Write("step_2/x");
  request_.until = 1;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(tried_, ElementsAre(1));
}

TEST_F(FollowedRun, WithoutBothItSettles) {
  Write("step_1/x");
  request_.settle = std::chrono::seconds(0);
  request_.until = 1;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(tried_, ElementsAre(1));
}

TEST_F(FollowedRun, ARunMayBeStillToCome) {
  request_.until = 1;
  const auto report = Run([&](int look) {
    if (look == 3) Write("step_1/done");
  });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(tried_, ElementsAre(1));
}

TEST_F(FollowedRun, EndsWhenNothingComes) {
  Write("step_1/done");
  EXPECT_EQ(Run()->made.size(), 1u);
  request_.until = 2;
  ExpectError(Run(), Errc::kNotFound, "step 2 has not come; for 1 seconds there was nothing new");
}

TEST_F(FollowedRun, WhatCannotBeReadIsTriedAgainWhenItChanges) {
  Write("step_1/done");
  request_.until = 1;
  answer_ = [&](const RunStep&) -> Status {
    const std::string file = request_.run + "/step_1/x";
    return tried_.size() < 2 ? Status(Corrupt("cut short").in(file)) : OkStatus();
  };
  const auto report = Run([&](int look) {
    if (look == 2) Write("step_1/rest");
  });
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(tried_.size(), 2u);
  EXPECT_TRUE(report->failed.empty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("cut short")));
}

TEST_F(FollowedRun, WhatStaysUnreadableStopsNoOther) {
  Write("step_1/done");
  Write("step_2/done");
  request_.until = 2;
  answer_ = [](const RunStep& step) -> Status {
    return step.number == 1 ? Status(Corrupt("damaged").in(step.path)) : OkStatus();
  };
  const auto report = Run();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->failed.size(), 1u);
  EXPECT_EQ(report->failed[0].first.name, "step_1");
}

TEST_F(FollowedRun, AnErrorThatStaysEndsAll) {
  Write("step_1/done");
  answer_ = [](const RunStep&) -> Status { return Unsupported("no such family"); };
  ExpectError(Run(), Errc::kUnsupported, "no such family");
  EXPECT_EQ(tried_.size(), 1u);
}

TEST_F(FollowedRun, AStepThatIsTakenAwayIsPassedOver) {
  Write("step_1/done");
  Write("step_2/done");
  request_.until = 2;
  answer_ = [&](const RunStep& step) -> Status {
    if (step.number != 1) return OkStatus();
    std::filesystem::remove_all(step.path);
    return Error(Errc::kIo, "cannot open");
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("step_1 was removed")));
}

TEST_F(FollowedRun, OfANewestOnlyOlderOnesArePassedOver) {
  for (const char* step : {"step_1/done", "step_2/done", "step_3/done"}) Write(step);
  request_.newest_only = true;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(tried_, ElementsAre(3));
}

TEST_F(FollowedRun, AFileThatTheUserNamedIsNotWaitedFor) {
  Write("step_1/done");
  answer_ = [](const RunStep&) -> Status { return NotFound("no such file").in("config.json"); };
  ExpectError(Run(), Errc::kNotFound, "no such file");
}

TEST_F(FollowedRun, TwoStepsOfOneNumberAreTwo) {
  Write("global_step_1/done");
  const auto report = Run([&](int look) {
    if (look == 2) Write("epoch_1/done");
  });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(tried_, ElementsAre(1, 1));
}

TEST_F(FollowedRun, ItCanBeStopped) {
  request_.poll = []() -> Status { return Error(Errc::kInterrupted, "stopped"); };
  ExpectError(Follow(request_, [](const RunStep&) { return OkStatus(); }), Errc::kInterrupted,
              "stopped");
}

}  // namespace
}  // namespace nxdkit::ops
