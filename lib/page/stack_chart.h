// Stacked areas as inline SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/page/chart.h"

namespace nxdkit::page {

// Stacked values; a curve without a value at a step counts as 0 there. Many steps are reduced to
// those with the lowest and the highest stack of each column of pixels, and the peak of each curve.
// The axis of values reaches `top`, if that is more than the stack needs: for charts to compare. ""
// if nothing is above 0.
std::string StackChart(std::string_view label, const std::vector<Curve>& curves,
                       std::string_view unit, double top = 0);

// The height of the highest stack.
double StackHeight(const std::vector<Curve>& curves);

}  // namespace nxdkit::page
