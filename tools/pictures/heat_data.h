// PRIVATE to tools/: the data of a heat map (lib/page/assets/heat.js), within a number of bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/ops/diff/diff.h"

namespace nxdkit::tool {

struct HeatData {
  std::string json;
  std::vector<std::string> left_out;  // for lack of room: "3 steps", "7 cells of the map"
};

// `labels`: of the whole way, then of each step. The JSON takes at most about `room` bytes in the
// page; the parameters that moved least are left out first.
HeatData MakeHeatData(const std::vector<std::string>& labels, const ops::VersionsReport& report,
                      size_t room);

// How far a parameter moved, for sorting: ||update|| / ||weights||; more where the weights are
// zeros, and most where there are NaNs or infinities.
double Distance(const ops::ParamDiff& param);

}  // namespace nxdkit::tool
