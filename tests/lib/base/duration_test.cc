#include "lib/base/duration.h"

#include <gtest/gtest.h>

#include <limits>

namespace nxdkit {
namespace {

TEST(HumanDuration, SaysTheTwoLargestUnits) {
  EXPECT_EQ(HumanDuration(0), "0.00 s");
  EXPECT_EQ(HumanDuration(0.057), "0.06 s");
  EXPECT_EQ(HumanDuration(0.996), "1.0 s");
  EXPECT_EQ(HumanDuration(9.96), "10 s");
  EXPECT_EQ(HumanDuration(59.4), "59 s");
  EXPECT_EQ(HumanDuration(59.5), "1 min 0 s");
  EXPECT_EQ(HumanDuration(2470), "41 min 10 s");
  EXPECT_EQ(HumanDuration(3599.6), "1 h 0 min");
  EXPECT_EQ(HumanDuration(5 * 3600 + 20 * 60 + 29), "5 h 20 min");
  EXPECT_EQ(HumanDuration(48.0 * 3600), "2 d 0 h");
  EXPECT_EQ(HumanDuration(291.4 * 3600), "12 d 3 h");
}

TEST(HumanDuration, ClaimsNothingOfWhatIsNoDuration) {
  for (const double seconds : {-1.0, 1e12, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(HumanDuration(seconds), "-") << seconds;
}

TEST(ClockText, IsRoundedToSeconds) {
  EXPECT_EQ(ClockText(0), "0:00");
  EXPECT_EQ(ClockText(7), "0:07");
  EXPECT_EQ(ClockText(59.5), "1:00");
  EXPECT_EQ(ClockText(3723), "1:02:03");
  EXPECT_EQ(ClockText(-1), "-");
}

}  // namespace
}  // namespace nxdkit
