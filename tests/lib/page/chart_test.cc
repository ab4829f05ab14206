#include "lib/page/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "lib/page/legend.h"
#include "lib/page/stack_chart.h"

namespace nxdkit::page {
namespace {

using ::testing::AllOf;
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
  const std::string svg = CurveChart("c", {{"a", &gap}});
  EXPECT_EQ(Occurrences(svg, "M"), 2u) << "a gap starts a new stroke";
  EXPECT_EQ(Occurrences(svg, "<circle"), 2u);
  const std::vector<Point> nothing = {{1, std::nan("")}};
  EXPECT_EQ(CurveChart("c", {{"a", &nothing}}), "");
  EXPECT_EQ(CurveChart("c", {}), "");
  const std::vector<Point> wide = {{INT64_MIN, -1.7e308}, {INT64_MAX, 1.7e308}};
  for (const char* part : {"nan", "inf"})
    EXPECT_THAT(CurveChart("c", {{"a", &wide}}), Not(HasSubstr(std::string("\"") + part)));
  EXPECT_THAT(CurveChart("c", {{"a", &wide}}), HasSubstr("d=\"M69.8")) << "right of \"-1.0e+308\"";
}

// A spike of one step among 100000 stays visible.
TEST(CurveChart, LongCurvesKeepTheirExtremes) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 100000; ++step) points.push_back({step, step == 51234 ? 9.0 : 1.0});
  const std::string svg = CurveChart("c", {{"a", &points}});
  EXPECT_LT(svg.size(), 100000u);
  EXPECT_EQ(Occurrences(svg, " 14.5"), 1u) << "the top of the range, less its room";
}

// A value that is missing in every column of pixels hides none of the others.
TEST(CurveChart, AMissingValueHidesNoOther) {
  for (const double missing : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (int64_t rest = 0; rest < 5; ++rest) {
      std::vector<Point> points, low;
      for (int64_t step = 0; step < 2000; ++step) {
        const bool gone = step % 5 == rest;
        points.push_back({step, gone ? missing : step == 1005 + (rest + 1) % 5 ? 1000 : 1});
        low.push_back({step, 0});
      }
      const std::string line = CurveChart("c", {{"a", &points}});
      EXPECT_EQ(Occurrences(line, " 14.9L"), 1u) << "the top of the range, less its room";
      EXPECT_EQ(Occurrences(line, "M"), 1u);
      const std::string band = CurveChart("c", {{"a", &low, &low, &points}});
      EXPECT_EQ(Occurrences(band, " 14.9L"), 1u);
      EXPECT_EQ(Occurrences(band, "Z"), 1u);
    }
}

TEST(CurveChart, AColumnOfMissingValuesIsAGap) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 100000; ++step)
    points.push_back({step, step / 10000 == 4 ? std::nan("") : static_cast<double>(step % 2)});
  const std::string svg = CurveChart("c", {{"a", &points, &points, &points}}, 100);
  EXPECT_EQ(Occurrences(svg, "M"), 6u) << "two strokes each: the line, its band, the smoothed line";
}

// A smoothed line shows some of its points: those that are there.
TEST(CurveChart, AMissingValueHidesNoSmoothedLine) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 2300; ++step)
    points.push_back({step, step % 12 == 0 ? std::nan("") : static_cast<double>(step % 2)});
  const std::string svg = CurveChart("c", {{"a", &points}}, 100);
  const size_t smooth = svg.find("smooth\" d=\"M");
  ASSERT_NE(smooth, std::string::npos);
  EXPECT_GT(Occurrences(svg.substr(smooth, svg.find("/>", smooth) - smooth), "L"), 100u);
}

TEST(CurveChart, ABandHasGapsWhereItsCurvesHave) {
  const double nan = std::nan("");
  const std::vector<Point> mean = {{1, 5}, {2, 5}, {3, 5}, {4, 5}, {5, 5}};
  const std::vector<Point> low = {{1, 0}, {2, 0}, {3, nan}, {4, 0}, {5, 0}};
  const std::vector<Point> high = {{1, 9}, {2, 9}, {3, 9}, {4, 9}, {5, 9}};
  const std::string svg = CurveChart("c", {{"a", &mean, &low, &high}});
  const size_t band = svg.find("<path class=\"band f0\"");
  ASSERT_NE(band, std::string::npos);
  EXPECT_LT(band, svg.find("<path class=\"line s0\"")) << "the curve is drawn over it";
  EXPECT_EQ(Occurrences(svg.substr(band, svg.find("/>", band) - band), "Z"), 2u);
  EXPECT_EQ(CurveChart("c", {{"a", &mean, nullptr, &high}}).find("band"), std::string::npos);
}

TEST(CurveChart, ALongBandKeepsItsExtremes) {
  std::vector<Point> low, high;
  for (int64_t step = 0; step < 100000; ++step) {
    low.push_back({step, 1});
    high.push_back({step, step == 51234 ? 9.0 : 2.0});
  }
  const std::string svg = CurveChart("c", {{"a", &low, &low, &high}});
  EXPECT_LT(svg.size(), 100000u);
  EXPECT_EQ(Occurrences(svg, " 14.5"), 1u) << "the top of the range, less its room";
}

TEST(StackChart, LaysLayersOnOneAnother) {
  const std::vector<Point> a = {{1, 1}, {2, 1}};
  const std::vector<Point> b = {{2, 3}};
  const std::string svg =
      StackChart("c", {{.name = "a", .points = &a}, {.name = "b", .points = &b, .color = 1}}, "s");
  EXPECT_THAT(svg, HasSubstr("<title>b (s), step 2: 3</title>"));
  EXPECT_THAT(svg,
              HasSubstr("class=\"area f1\" d=\"M62.0 116.0L430.0 8.0L430.0 116.0L62.0 116.0Z\""));
  const std::vector<Point> zero = {{1, 0}};
  EXPECT_EQ(StackChart("c", {{"z", &zero}}, "s"), "");
}

// Not every step is drawn, but a phase that only few of them have is.
TEST(StackChart, ManyStepsKeepTheirPeaks) {
  std::vector<Point> train, save;
  for (int64_t step = 1; step <= 500; ++step) {
    train.push_back({step, 1});
    if (step % 10 == 0) save.push_back({step, 30});
  }
  const std::vector<Curve> curves = {{"train", &train}, {"save", &save}};
  EXPECT_EQ(StackHeight(curves), 31);
  const std::string svg = StackChart("c", curves, "s");
  EXPECT_THAT(svg, HasSubstr("<title>save (s), step 10: 30</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>save (s), step 500: 30</title>")) << "the last step";
}

TEST(StackChart, ManyStepsKeepTheirLast) {
  std::vector<Point> train;
  for (int64_t step = 1; step <= 2000; ++step) train.push_back({step, step == 2000 ? 51.0 : 1.0});
  EXPECT_EQ(StackHeight({{"train", &train}}), 51);
  EXPECT_THAT(StackChart("c", {{"train", &train}}, "s"),
              HasSubstr("<title>train (s), step 2000: 51</title>"));
}

// Each column of pixels has a higher stack than the one with the only value of another curve.
TEST(StackChart, ManyStepsKeepTheOnlyValueOfACurve) {
  std::vector<Point> train, save;
  for (int64_t step = 1; step <= 100000; ++step) {
    train.push_back({step, 1});
    if (step % 10 == 0) save.push_back({step, 30});
  }
  const std::vector<Point> once = {{51234, 5}};
  const std::string svg =
      StackChart("c", {{"train", &train}, {"once", &once}, {"save", &save}}, "s");
  EXPECT_THAT(svg, HasSubstr("<title>once (s), step 51234: 5</title>"));
  EXPECT_LT(svg.size(), 200000u);
}

// A sum beyond the largest number has no place in a chart.
TEST(StackChart, AnInfiniteSumIsNotDrawn) {
  const std::vector<Point> big = {{1, 1.7e308}, {2, 1}};
  EXPECT_EQ(StackChart("c", {{"a", &big}, {"b", &big}}, "s"), "");
}

// Charts to compare have one axis.
TEST(StackChart, ReachesTheTopOfTheHighest) {
  const std::vector<Point> low = {{1, 1}, {2, 1}}, high = {{1, 4}, {2, 3}};
  EXPECT_EQ(StackHeight({{"a", &low}, {"b", &high}}), 5);
  EXPECT_THAT(StackChart("c", {{"a", &low}}, "s", 5), HasSubstr("M62.0 123.2L430.0 123.2"));
}

TEST(Legend, ItsHeadingsAreThoseOfColumns) {
  const std::vector<Point> a = {{1, 1}, {2, 2}};
  const std::string legend = Legend({{"a", &a}});
  EXPECT_THAT(legend, HasSubstr("<tr><td></td><th scope=\"col\">min</th>"));
  EXPECT_EQ(Occurrences(legend, "<th scope=\"col\">"), 3u);
  EXPECT_EQ(Occurrences(legend, "<th>"), 0u);
}

TEST(Curves, ThatAreEqualAreToldApart) {
  const std::vector<Point> a = {{1, 1}, {2, 2}}, b = a, c = {{1, 1}, {2, 3}};
  std::vector<Curve> curves = {{.name = "x/a", .points = &a},
                               {.name = "x/c", .points = &c, .color = 1},
                               {.name = "x/b", .points = &b, .color = 2}};
  TellApart(curves);
  EXPECT_EQ(curves[1].equal, 1u);
  const std::string first =
      "<path class=\"line s0 shared\" stroke-dasharray=\"8.00 8.00\" stroke-dashoffset=\"-0.00\" "
      "d=\"M";
  const std::string second =
      "<path class=\"line s2 shared\" stroke-dasharray=\"8.00 8.00\" stroke-dashoffset=\"-8.00\" "
      "d=\"M";
  EXPECT_THAT(CurveChart("c", curves), AllOf(HasSubstr(first), HasSubstr(second),
                                             HasSubstr("<path class=\"line s1\" d=\"M")));
  const std::string legend = Legend(curves);
  EXPECT_THAT(legend, HasSubstr(first + "1 5H25\"/></svg>x/<wbr>a</td>"));
  EXPECT_THAT(legend,
              HasSubstr(second + "1 5H25\"/></svg>x/<wbr>b "
                                 "<small>= x/<wbr>a</small></td><td>1</td><td>2</td><td>2</td>"));
  EXPECT_EQ(Occurrences(legend, "<small>"), 1u);
}

TEST(Curves, ThatAreEqualFillAPeriodOfDashes) {
  const std::vector<Point> a = {{1, 1}, {2, 2}}, other = {{1, 1}, {2, 3}};
  std::vector<Curve> curves(9, {.name = "", .points = &a});
  curves[4].points = &other;
  TellApart(curves);
  for (size_t i = 0; i < curves.size(); ++i) {
    SCOPED_TRACE(i);
    if (i == 4) continue;
    EXPECT_EQ(curves[i].equal, 8u);
    EXPECT_EQ(curves[i].rank, i - (i > 4 ? 1 : 0));
  }
  EXPECT_THAT(LineSvg(curves[8], "", "M1 5H25"),
              HasSubstr("stroke-dasharray=\"3.00 21.00\" stroke-dashoffset=\"-21.00\""));
}

// The labels end left of the drawing, and may be as long as a number is.
TEST(CurveChart, LabelsOfTheValuesAreInside) {
  for (const auto& [low, high] : {std::pair(0.9995e-6, 1e-6),
                                  {-1000025.0, -999975.0},
                                  {-1.0000000000000002e-300, -1e-300},
                                  {0.0, 1.0}}) {
    const std::vector<Point> points = {{1, low}, {2, high}};
    const std::string svg = CurveChart("c", {{"a", &points}});
    const std::regex label("text-anchor=\"end\" x=\"([0-9.]+)\" y=\"[0-9.]+\">([-+.e0-9]+)<");
    size_t labels = 0;
    for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it, ++labels)
      EXPECT_GE(std::stod((*it)[1]), 7 * static_cast<double>((*it)[2].length())) << (*it)[2];
    EXPECT_GE(labels, 2u);
  }
}

TEST(Curves, ThatAreNoisyAreSmoothed) {
  std::vector<Point> noisy, line;
  for (int64_t step = 0; step < 60; ++step) {
    noisy.push_back({step, static_cast<double>(step % 2)});
    line.push_back({step, static_cast<double>(step)});
  }
  const std::vector<Curve> curves = {{"n", &noisy}, {"l", &line}};
  const std::string svg = CurveChart("c", curves, 5);
  EXPECT_EQ(Occurrences(svg, "class=\"line s0 raw\""), 1u);
  EXPECT_EQ(Occurrences(svg, "class=\"line s0 smooth\""), 1u);
  EXPECT_EQ(Occurrences(svg, "class=\"line s0\""), 1u) << "the other one";
  EXPECT_THAT(CurveChart("c", curves), Not(HasSubstr("smooth")));
}

// Names may be anything, also of equal curves, and so may the label for readers of the screen.
TEST(Curves, NamesAreText) {
  const std::string evil = "<script>\"x\"</script>\xe2\x80\xae";
  const std::vector<Point> a = {{1, 1}, {2, 2}};
  std::vector<Curve> curves = {{evil, &a, &a, &a}, {evil, &a}};
  curves[0].band = evil;
  TellApart(curves);
  for (const std::string& html : {CurveChart(evil, curves), Legend(curves)}) {
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;&quot;x&quot;&lt;/"));
    EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));
  }
}

}  // namespace
}  // namespace nxdkit::page
