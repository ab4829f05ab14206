#include "lib/page/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace nxdkit::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CurveChart, GapsAndExtremes) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Point> gap = {{1, 1}, {2, std::nan("")}, {3, 2}, {4, inf}};
  const std::string svg = CurveChart({{"a", &gap}});
  EXPECT_EQ(Occurrences(svg, "M"), 2u) << "a gap starts a new stroke";
  EXPECT_EQ(Occurrences(svg, "<circle"), 2u);
  const std::vector<Point> nothing = {{1, std::nan("")}};
  EXPECT_EQ(CurveChart({{"a", &nothing}}), "");
  EXPECT_EQ(CurveChart({}), "");
  const std::vector<Point> wide = {{INT64_MIN, -1.7e308}, {INT64_MAX, 1.7e308}};
  for (const char* part : {"nan", "inf"})
    EXPECT_THAT(CurveChart({{"a", &wide}}), Not(HasSubstr(std::string("\"") + part)));
  EXPECT_THAT(CurveChart({{"a", &wide}}), HasSubstr("d=\"M56.0"));
}

// A spike of one step among 100000 stays visible.
TEST(CurveChart, LongCurvesKeepTheirExtremes) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 100000; ++step) points.push_back({step, step == 51234 ? 9.0 : 1.0});
  const std::string svg = CurveChart({{"a", &points}});
  EXPECT_LT(svg.size(), 100000u);
  EXPECT_EQ(Occurrences(svg, " 14.5"), 1u) << "the top of the range, less its room";
}

TEST(CurveChart, ABandHasGapsWhereItsCurvesHave) {
  const double nan = std::nan("");
  const std::vector<Point> mean = {{1, 5}, {2, 5}, {3, 5}, {4, 5}, {5, 5}};
  const std::vector<Point> low = {{1, 0}, {2, 0}, {3, nan}, {4, 0}, {5, 0}};
  const std::vector<Point> high = {{1, 9}, {2, 9}, {3, 9}, {4, 9}, {5, 9}};
  const std::string svg = CurveChart({{"a", &mean, &low, &high}});
  const size_t band = svg.find("<path class=\"band f0\"");
  ASSERT_NE(band, std::string::npos);
  EXPECT_LT(band, svg.find("<path class=\"line s0\"")) << "the curve is drawn over it";
  EXPECT_EQ(Occurrences(svg.substr(band, svg.find("/>", band) - band), "Z"), 2u);
  EXPECT_EQ(CurveChart({{"a", &mean, nullptr, &high}}).find("band"), std::string::npos);
}

TEST(CurveChart, ALongBandKeepsItsExtremes) {
  std::vector<Point> low, high;
  for (int64_t step = 0; step < 100000; ++step) {
    low.push_back({step, 1});
    high.push_back({step, step == 51234 ? 9.0 : 2.0});
  }
  const std::string svg = CurveChart({{"a", &low, &low, &high}});
  EXPECT_LT(svg.size(), 100000u);
  EXPECT_EQ(Occurrences(svg, " 14.5"), 1u) << "the top of the range, less its room";
}

TEST(StackChart, LaysLayersOnOneAnother) {
  const std::vector<Point> a = {{1, 1}, {2, 1}};
  const std::vector<Point> b = {{2, 3}};
  const std::string svg = StackChart({{"a", &a}, {"b", &b}}, "s");
  EXPECT_THAT(svg, HasSubstr("<title>b (s), step 2: 3</title>"));
  EXPECT_THAT(svg,
              HasSubstr("class=\"area f1\" d=\"M56.0 116.0L430.0 8.0L430.0 116.0L56.0 116.0Z\""));
  const std::vector<Point> zero = {{1, 0}};
  EXPECT_EQ(StackChart({{"z", &zero}}, "s"), "");
}

}  // namespace
}  // namespace nxdkit::page
