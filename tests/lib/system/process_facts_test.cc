#include "lib/system/process_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/system/paths.h"

namespace nxdkit {
namespace {

TEST(ProcessFacts, OfThisOne) {
  const std::optional<ProcessFacts> facts = FactsOfProcess(::getpid());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->name, std::string("test_lib").substr(0, 15));
  ASSERT_FALSE(facts->words.empty());
  EXPECT_THAT(facts->words[0], ::testing::EndsWith("test_lib"));
}

TEST(ProcessFacts, OfNone) {
  EXPECT_FALSE(FactsOfProcess(0).has_value());
  EXPECT_FALSE(FactsOfProcess(-1).has_value());
  EXPECT_FALSE(FactsOfProcess(int64_t{1} << 40).has_value());
}

}  // namespace
}  // namespace nxdkit
