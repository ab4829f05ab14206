// PRIVATE to lib/page: the files of assets/, embedded by the build.
#pragma once

#include <string_view>

namespace nxdkit::page {

extern const std::string_view kStyleCss;
extern const std::string_view kBaseJs;
extern const std::string_view kTreemapJs;
extern const std::string_view kPlanJs;
extern const std::string_view kHeatJs;

}  // namespace nxdkit::page
