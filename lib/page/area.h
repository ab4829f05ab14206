// Areas between lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/page/frame.h"

namespace nxdkit::page {

// The outline of the area between two lines over the same steps.
std::string AreaPath(const std::vector<Point>& upper, const std::vector<Point>& lower,
                     const Frame& frame);

// The point at a step, if its value is finite; nullptr otherwise.
const Point* FiniteAt(const std::vector<Point>& points, int64_t step);

}  // namespace nxdkit::page
