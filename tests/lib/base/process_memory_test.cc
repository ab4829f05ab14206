#include "lib/base/process_memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace nxdkit {
namespace {

TEST(PeakRss, GrowsWithMemory) {
  const uint64_t before = PeakRssBytes();
  ASSERT_GT(before, 1'000'000u);
  const size_t bytes = 64 << 20;
  const auto memory = std::make_unique<char[]>(bytes);
  for (size_t i = 0; i < bytes; i += 4096) *const_cast<volatile char*>(&memory[i]) = 1;
  EXPECT_GE(PeakRssBytes(), before);
  EXPECT_GE(PeakRssBytes(), bytes);
}

}  // namespace
}  // namespace nxdkit
