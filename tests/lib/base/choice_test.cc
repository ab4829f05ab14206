#include "lib/base/choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace nxdkit {
namespace {

std::string Told(std::string_view name) {
  const std::optional<NameNumber> number = NumberOfName(name);
  return number ? number->counts + " " + number->digits : "";
}

TEST(NumberOfName, IsWhatTheNameCounts) {
  const std::pair<const char*, const char*> rows[] = {
      {"step_100", "step 100"},
      {"global_step_100", "step 100"},
      {"global_step100", "step 100"},
      {"step-100", "step 100"},
      {"Step=0100", "step 100"},
      {"llama--step=1000-", "step 1000"},
      {"megatron_llama--step=1000-consumed_samples=64000.0.ckpt", "step 1000"},
      {"epoch=3-step=1000", "step 1000"},
      {"step_5_epoch_7", "step 5"},
      {"step_of_7_step_8", "step 8"},
      {"epoch=3", "epoch 3"},
      {"iter_0000100", "iter 100"},
      {"iteration-7", "iter 7"},
      {"checkpoint-100", "checkpoint 100"},
      {"ckpt100", "checkpoint 100"},
      {"100", " 100"},
      {"000", " 0"},
      {"save100", "save 100"},
      {"steps", ""},
      {"final", ""},
      {"2026-11-25", ""},
      {"", ""},
      {"step_", ""},
      {"step_123456789012345678901234567890", "step 123456789012345678901234567890"},
  };
  for (const auto& [name, told] : rows) EXPECT_EQ(Told(name), told) << name;
}

std::string Taken(const std::vector<DatedName>& names) {
  const std::optional<Newest> newest = FindNewest(names);
  return newest ? names[newest->index].name + " by " + newest->by : "";
}

TEST(ChoiceText, SaysWhyForEachCriterion) {
  const std::pair<const char*, const char*> rows[] = {
      {"number", "took run/b, the highest number of 2"},
      {"time", "took run/b, the newest of 2"},
      {"tracker", "took run/b, the one that a file names, of 2"},
      {"option", "took run/b, the one asked for, of 2"},
      {"order", "took run/b, the first of 2"},
  };
  for (const auto& [by, text] : rows) EXPECT_EQ(ChoiceText({"run/b", 2, by}), text);
}

TEST(FindNewest, ComparesNumbersAsNumbers) {
  EXPECT_EQ(Taken({{"step_9", {}}, {"step_100", {}}, {"step_10", {}}}), "step_100 by number");
  EXPECT_EQ(Taken({{"step_9", {}}, {"global_step_10", {}}}), "global_step_10 by number");
  EXPECT_EQ(Taken({{"step_18446744073709551616", {}}, {"step_18446744073709551615", {}}}),
            "step_18446744073709551616 by number");
  EXPECT_EQ(Taken({{"step_100", {}}}), "step_100 by ");
  EXPECT_EQ(Taken({}), "");
}

// In any order, and even against the times.
TEST(FindNewest, TimesCountWhereNamesDoNotTell) {
  EXPECT_EQ(Taken({{"b", {1, 0}}, {"a", {1, 1}}}), "a by time");
  EXPECT_EQ(Taken({{"step_5", {9, 0}}, {"step_7", {1, 0}}, {"final", {5, 0}}}), "final by time");
  EXPECT_EQ(Taken({{"step_5", {9, 0}}, {"step_7", {6, 0}}, {"final", {5, 0}}}), "step_7 by time");
  EXPECT_EQ(Taken({{"step_5", {1, 0}}, {"epoch_7", {2, 0}}}), "epoch_7 by time");
  EXPECT_EQ(Taken({{"step_7", {1, 0}}, {"global_step_07", {2, 0}}}), "global_step_07 by time");
}

TEST(FindNewest, NothingIsTakenWhereNothingTells) {
  EXPECT_EQ(Taken({{"a", {1, 0}}, {"b", {1, 0}}}), "");
  EXPECT_EQ(Taken({{"step_7", {1, 0}}, {"final", {1, 0}}}), "");
}

TEST(FindNewest, WhatTimesSayAgainstTheNumberIsTold) {
  const std::vector<DatedName> names = {{"step_100", {1767225600, 0}}, {"step_9", {1767312000, 0}}};
  EXPECT_EQ(FindNewest(names)->doubt,
            "step_100 (2026-01-01 00:00:00) has the highest number, but step_9 was finished later "
            "(2026-01-02 00:00:00)");
  EXPECT_EQ(FindNewest(std::vector<DatedName>{{"step_1", {1, 0}}, {"step_2", {1, 0}}})->doubt, "");
}

TEST(FirstNames, NamesFewOfMany) {
  EXPECT_EQ(FirstNames(std::vector<std::string>{"a", "b"}), "a, b");
  EXPECT_EQ(FirstNames(std::vector<std::string>{"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

}  // namespace
}  // namespace nxdkit
