// A conversion that is stopped between two tasks, at each of them, and resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using ops::Kind;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;

std::map<std::string, std::string> Tree(const std::string& path) {
  if (!fs::is_directory(path)) return {{"", ReadBytes(path)}};
  std::map<std::string, std::string> tree;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file())
      tree[entry.path().lexically_relative(path).string()] = ReadBytes(entry.path().string());
  return tree;
}

class ConvertResume : public ::testing::Test {
 protected:
  ops::ConvertRequest Request(const Kind* to, const std::string& out) const {
    ops::OutputOptions options;
    if (to == &ops::kNxd) options.Set("tp", 4);
    if (to == &ops::kRollout) options.Set("tp", 8);
    options.Set("hw", Word(models::Hardware::kTrn1));
    return OpsWorkshop::Request(model_, &ops::kHf, out, to, options);
  }

  // Stops at the poll with this number; -1: never. Counts the polls in `polls`.
  static void StopAt(ops::ConvertRequest& request, int stop, int& polls) {
    request.run.poll = [stop, &polls]() -> Status {
      if (polls++ != stop) return OkStatus();
      return Error(Errc::kInterrupted, "stopped by the test");
    };
  }

  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyQwen3());
  const std::string out_ = workshop_ / "out";
  const std::string partial_ = out_ + ".partial";
};

TEST_F(ConvertResume, GoesOnFromEveryTask) {
  for (const Kind* to : {&ops::kNxd, &ops::kRollout, &ops::kHf, &ops::kTorch}) {
    SCOPED_TRACE(to->name);
    const std::string whole = workshop_ / (std::string(to->name) + "/out");
    ops::ConvertRequest straight = Request(to, whole);
    int all = 0;
    StopAt(straight, -1, all);
    const auto report = ops::Convert(straight);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    const int tasks = static_cast<int>(report->tasks);
    const int before = all - tasks;  // polls of the check of the source
    for (int stop = 0; stop < all; stop += 1 + all / 12) {
      ops::ConvertRequest first = Request(to, out_);
      int polls = 0;
      StopAt(first, stop, polls);
      ExpectError(ops::Convert(first), Errc::kInterrupted, "stopped by the test");
      EXPECT_FALSE(fs::exists(out_));
      EXPECT_EQ(fs::exists(partial_), stop >= before) << "kept once something was written";
      ops::ConvertRequest second = Request(to, out_);
      second.resume = true;
      second.verify = true;
      const auto resumed = ops::Convert(second);
      ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
      // A single file has no journal.
      const int expected = to == &ops::kTorch ? 0 : std::max(0, stop - before);
      EXPECT_EQ(resumed->resumed_tasks, static_cast<uint64_t>(expected)) << "stopped at " << stop;
      EXPECT_TRUE(Tree(out_) == Tree(whole)) << "stopped at " << stop;
      EXPECT_FALSE(fs::exists(partial_));
      fs::remove_all(out_);
    }
  }
}

// Leaves half of an NxD set.
void Interrupt(ops::ConvertRequest request) {
  int polls = 0;
  request.run.poll = [&]() -> Status {
    if (polls++ < 20) return OkStatus();
    return Error(Errc::kInterrupted, "stopped by the test");
  };
  ExpectError(ops::Convert(request), Errc::kInterrupted, "stopped by the test");
  ASSERT_TRUE(fs::exists(request.output + ".partial"));
}

TEST_F(ConvertResume, StartsAfreshWhenTheSourceChanged) {
  Interrupt(Request(&ops::kNxd, out_));
  ops::MakeModelRequest other;  // the same shapes and sizes, other weights
  const std::string config = ReadBytes(model_ + "/config.json");
  std::ofstream(workshop_ / "config.json") << config;
  other.config = workshop_ / "config.json";
  other.output = model_;
  other.seed = 99;
  other.force = true;
  ASSERT_TRUE(ops::MakeModel(other).ok());
  ops::ConvertRequest request = Request(&ops::kNxd, out_);
  request.resume = true;
  request.verify = true;
  const auto resumed = ops::Convert(request);
  ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
  EXPECT_EQ(resumed->resumed_tasks, 0u);
}

TEST_F(ConvertResume, StartsAfreshWithOtherOptions) {
  Interrupt(Request(&ops::kNxd, out_));
  ops::ConvertRequest request = Request(&ops::kNxd, out_);
  request.options.Set("tp", 2);
  request.resume = true;
  const auto resumed = ops::Convert(request);
  ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
  EXPECT_EQ(resumed->resumed_tasks, 0u);
  request.output = workshop_ / "fresh";
  ASSERT_TRUE(ops::Convert(request).ok());
  EXPECT_TRUE(Tree(out_) == Tree(workshop_ / "fresh")) << "files of tp 4 are left";
}

TEST_F(ConvertResume, WithoutItNothingIsTakenOver) {
  Interrupt(Request(&ops::kNxd, out_));
  const auto report = ops::Convert(Request(&ops::kNxd, out_));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->resumed_tasks, 0u);
  EXPECT_FALSE(fs::exists(partial_));
}

// A failure other than a signal leaves nothing to resume from.
TEST_F(ConvertResume, AFailureLeavesNothing) {
  ops::ConvertRequest request = Request(&ops::kNxd, out_);
  int polls = 0;
  request.run.poll = [&]() -> Status {
    if (polls++ < 20) return OkStatus();
    return Error(Errc::kIo, "the disk is gone");
  };
  ExpectError(ops::Convert(request), Errc::kIo, "the disk is gone");
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ConvertResume, ProgressCountsEveryByteOfAPhase) {
  ops::ConvertRequest request = Request(&ops::kNxd, out_);
  std::vector<std::string> phases;
  uint64_t expected = 0;
  std::atomic<uint64_t> done{0};
  request.run.jobs = 4;
  request.run.begin = [&](const std::string& phase, uint64_t bytes) {
    EXPECT_EQ(done, expected) << "before " << phase;
    phases.push_back(phase);
    expected = bytes;
    done = 0;
  };
  request.run.on_bytes = [&](uint64_t bytes) { done += bytes; };
  request.verify = true;
  ASSERT_TRUE(ops::Convert(request).ok());
  EXPECT_EQ(done, expected);
  EXPECT_THAT(phases, ::testing::Contains("writing"));
  EXPECT_THAT(phases, ::testing::Contains("comparing"));
}

}  // namespace
}  // namespace nxdkit
