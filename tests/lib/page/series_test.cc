#include "lib/page/series.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nxdkit::page {
namespace {

const double kNan = std::nan("");

std::vector<Point> Line(const std::vector<double>& values) {
  std::vector<Point> points;
  for (const double value : values) points.push_back({static_cast<int64_t>(points.size()), value});
  return points;
}

TEST(Series, EqualCurvesMayDifferByTheRoundingOfSums) {
  EXPECT_TRUE(AreEqual(Line({1, kNan, 0.1 + 0.2}), Line({1, kNan, 0.3})));
  EXPECT_FALSE(AreEqual(Line({1, 2}), Line({1, 2.00001})));
  EXPECT_FALSE(AreEqual(Line({1, 2}), Line({1})));
  EXPECT_FALSE(AreEqual({{1, 2}}, {{2, 2}}));
  EXPECT_FALSE(AreEqual(Line({0}), Line({1e-300})));
}

TEST(Series, ConstantNeedsTwoFiniteValues) {
  EXPECT_TRUE(IsConstant(Line({3, 3, 3})));
  for (const auto& points :
       {Line({}), Line({3}), Line({3, 4}), Line({kNan, kNan}), Line({3, kNan})})
    EXPECT_FALSE(IsConstant(points));
}

// By hand: alpha is 1/2 for a window of 3, so the weights of the last values are 1, 1/2, 1/4, ...
TEST(Series, TheAverageWeighsTheLastValuesMost) {
  const std::vector<Point> smooth = Smoothed(Line({4, 8, kNan, 1}), 3);
  EXPECT_DOUBLE_EQ(smooth[0].value, 4);
  EXPECT_DOUBLE_EQ(smooth[1].value, (8 + 4 * 0.5) / 1.5);
  EXPECT_TRUE(std::isnan(smooth[2].value));
  EXPECT_DOUBLE_EQ(smooth[3].value, (1 + 8 * 0.5 + 4 * 0.25) / 1.75);
  for (const Point& point : Smoothed(Line(std::vector<double>(50, 7)), 9))
    EXPECT_DOUBLE_EQ(point.value, 7);
}

TEST(Series, NoisyCurvesGoUpAndDown) {
  std::vector<double> zigzag, rising, few;
  for (int i = 0; i < 60; ++i) {
    zigzag.push_back(i % 2);
    rising.push_back(i);
  }
  EXPECT_TRUE(IsNoisy(Line(zigzag)));
  EXPECT_FALSE(IsNoisy(Line(rising)));
  zigzag.resize(kSmoothFrom - 1);
  EXPECT_FALSE(IsNoisy(Line(zigzag)));
}

}  // namespace
}  // namespace nxdkit::page
