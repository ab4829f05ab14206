// PRIVATE to tests: a man page (mdoc) as data, to compare pages, help and JSON with each other.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::test {

using Names = std::set<std::string>;

// "ckpt-inspect" from the program's path.
std::string NameOf(const std::string& tool);

// Options that --help lists: "--tp", "-j".
Names HelpOptions(std::string_view help);
// Options that the page describes (its `.It Fl` lines).
Names ManOptions(std::string_view page);
// Options that the page mentions anywhere, including its synopsis and text.
Names ManMentions(std::string_view page);
// Paths of the JSON output that the page describes: `.It Va tensors[].name` below the heading JSON
// OUTPUT. A part "*" stands for any key.
Names ManJsonPaths(std::string_view page);

// The paths of `json` ("tensors[].name") that are not described. Objects and arrays also count by
// themselves.
std::vector<std::string> UndocumentedPaths(const Json& json, const Names& documented);

// Command lines of the page's EXAMPLES: `.Dl nxd-convert ...`, in order.
std::vector<std::string> ManExamples(std::string_view page);

}  // namespace nxdkit::test
