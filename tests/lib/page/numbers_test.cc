#include "lib/page/numbers.h"

#include <gtest/gtest.h>

namespace nxdkit {
namespace {

TEST(ShortNumber, HasAFewDigits) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(1.23456e-5), "1.2e-05");
  EXPECT_EQ(ShortNumber(0.51234), "0.5123");
  EXPECT_EQ(ShortNumber(412.26), "412.3");
  EXPECT_EQ(ShortNumber(-4), "-4");
  EXPECT_EQ(ShortNumber(12345), "12345");
  EXPECT_EQ(ShortNumber(1.5e9), "1.5e+09");
}

}  // namespace
}  // namespace nxdkit
