#include "trainer/loop/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "tests/formats/scratch.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AttemptTest : public ::testing::Test {
 protected:
  Attempt Claim() const {
    auto claimed = Attempt::Claim(run_);
    EXPECT_TRUE(claimed.ok()) << claimed.error().ToString();
    return *std::move(claimed);
  }
  const testing_util::Scratch folder_;
  const std::string run_ = folder_.Path("run");
};

TEST_F(AttemptTest, TheLaterOneTakesTheRunOver) {
  const Attempt first = Claim();
  EXPECT_EQ(first.number(), 1);
  EXPECT_TRUE(first.Check().ok());
  const Attempt second = Claim();
  EXPECT_EQ(second.number(), 2);
  EXPECT_TRUE(second.Check().ok());
  const Status taken = first.Check();
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code(), Errc::kIo);
  EXPECT_THAT(taken.error().ToString(),
              HasSubstr("attempt 2 has taken this run over from attempt 1"));
  EXPECT_THAT(taken.error().file(), HasSubstr("run/attempts/2"));
  // Only the newest is kept.
  EXPECT_THAT(*ListFolder(run_ + "/attempts"), ElementsAre("2"));
}

TEST_F(AttemptTest, WhatIsDoneIsMarkedByTheNewestOnly) {
  const Attempt first = Claim();
  ASSERT_TRUE(first.Done(40).ok());
  EXPECT_EQ(*ReadSmallFile(run_ + "/DONE", 1000), "{\"attempt\":1,\"step\":40}\n");
  const Attempt second = Claim();
  ASSERT_TRUE(second.ClearDone().ok());
  EXPECT_EQ(*KindOf(run_ + "/DONE"), PathKind::kMissing);
  EXPECT_TRUE(second.ClearDone().ok());
  EXPECT_FALSE(first.Done(40).ok());
  EXPECT_EQ(*KindOf(run_ + "/DONE"), PathKind::kMissing);
}

// Like a file that a listing does not show: the next number is used, not the same one forever.
TEST_F(AttemptTest, ANumberThatIsTakenIsNotTriedAgain) {
  ASSERT_TRUE(MakeFolders(run_ + "/attempts").ok());
  folder_.Write("run/attempts/2147483646", "x");
  folder_.Write("run/attempts/2147483647", "not looked at: it is no number of ours");
  EXPECT_EQ(Claim().number(), 2147483648);
}

TEST_F(AttemptTest, OtherNamesAreNotNumbers) {
  ASSERT_TRUE(MakeFolders(run_ + "/attempts").ok());
  folder_.Write("run/attempts/notes", "x");
  folder_.Write("run/attempts/-3", "x");
  folder_.Write("run/attempts/17", "damaged");
  const Attempt attempt = Claim();
  EXPECT_EQ(attempt.number(), 18);
  folder_.Write("run/attempts/19", "damaged");
  EXPECT_THAT(attempt.Check().error().ToString(), HasSubstr("on another machine"));
}

}  // namespace
}  // namespace nxdkit::trainer
