#include "lib/system/owner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nxdkit {
namespace {

TEST(Owner, OfThisProcessLives) {
  const Owner me = ThisProcess();
  EXPECT_EQ(me.pid, getpid());
  EXPECT_GT(me.start, 0);
  EXPECT_EQ(AskAlive(me), Alive::kYes);
  EXPECT_EQ(ParseOwner(me.ToText()), me);
}

TEST(Owner, OfAnotherProcessOfThatPidIsGone) {
  Owner me = ThisProcess();
  me.start -= 1;
  EXPECT_EQ(AskAlive(me), Alive::kNo);
}

TEST(Owner, OfAProcessThatEndedIsGone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = ThisProcess().ToText();
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  const std::optional<Owner> owner = ParseOwner(text);
  ASSERT_TRUE(owner) << text;
  EXPECT_EQ(owner->pid, child);
  EXPECT_EQ(AskAlive(*owner), Alive::kNo);
}

TEST(Owner, OfAnotherMachineIsUnknown) {
  Owner other = ThisProcess();
  other.boot = "another/1";
  EXPECT_EQ(AskAlive(other), Alive::kUnknown);
}

TEST(Owner, IsFourWords) {
  for (const char* text : {"", "host", "host boot", "host boot 1", "host boot x 1"})
    EXPECT_FALSE(ParseOwner(text)) << text;
}

TEST(MayLive, WhatCannotBeAskedHasAMinute) {
  EXPECT_TRUE(MayLive(Alive::kYes, 0, 1000, 60));
  EXPECT_FALSE(MayLive(Alive::kNo, 1000, 1000, 60));
  EXPECT_TRUE(MayLive(Alive::kUnknown, 941, 1000, 60));
  EXPECT_FALSE(MayLive(Alive::kUnknown, 940, 1000, 60));
}

}  // namespace
}  // namespace nxdkit
