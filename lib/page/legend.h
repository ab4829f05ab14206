// The legend of a chart.
#pragma once

#include <string>
#include <vector>

#include "lib/page/chart.h"

namespace nxdkit::page {

// A table of the curves: their line and its dash, or their colour if they are areas; the name, and
// an equal curve's; the lowest, highest and last value. The ends of a band are rows of their own.
std::string Legend(const std::vector<Curve>& curves, bool areas = false);

// The line of a curve, as its legend shows it.
std::string LineKey(const Curve& curve);

// The lowest, highest and last value.
std::vector<std::string> SummaryTexts(const std::vector<Point>& points);

}  // namespace nxdkit::page
