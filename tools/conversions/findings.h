// PRIVATE to tools/: the passed checks and the findings of a report, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/finding.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

// A line for each check, then for each of the first twenty findings, then the verdict: "PATH:
// <good>", or how many findings there are. Where parameters differ from those of `from`, a sentence
// with their number comes first, and the five worst findings do.
struct ComparedWith {
  std::string from;
  artifact::DifferingParams params;
};
std::string FindingsText(const std::vector<std::string>& checks,
                         const std::vector<artifact::Finding>& findings, const std::string& path,
                         const char* good, const ComparedWith& compared = {});

// All of them, each with the keys that apply.
Json FindingsJson(const std::vector<artifact::Finding>& findings);

}  // namespace nxdkit::tool
