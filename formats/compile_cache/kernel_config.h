// The configuration of a kernel: base64 of a JSON text that names the kernel's binary by an
// absolute path. It stands in nki/<key>.json and, the same text, in graph.hlo. Facts: FORMAT.md
// beside this file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

// The path of the binary (klir_binary.binary); nullopt when the text is no configuration of a
// kernel.
std::optional<std::string> BinaryOfConfig(std::string_view base64);
// The same text with another path; every other byte of the JSON is as it was. kUnsupported when the
// path is not written there as Python's json writes it.
Result<std::string> ConfigWithBinary(std::string_view base64, const std::string& binary);
// The configuration without the path: equal texts are the same kernel.
std::string ConfigWithoutBinary(std::string_view base64);

// A value of a JSON object, a string, in the text of the whole: replaced in place. kUnsupported as
// above. `keys` lead to it.
Result<std::string> ReplaceJsonString(std::string_view text, const std::vector<std::string>& keys,
                                      const std::string& value);

// A kernel that a graph names.
struct GraphKernel {
  uint64_t offset = 0;  // where its configuration begins in the graph
  std::string binary;
};
// kUnsupported when the graph holds a configuration in a place that is not known, or too many:
// nobody could say then that all were found. The time is in proportion to the bytes; `poll` is
// asked in between.
Result<std::vector<GraphKernel>> KernelsOfGraph(std::string_view graph,
                                                const std::function<Status()>& poll = {});

// Gives the path that a binary is to have; nullopt: it stays.
using MapBinary = std::function<std::optional<std::string>(const std::string& binary)>;
// The graph with other paths; nullopt when none changes. Errors as of KernelsOfGraph.
Result<std::optional<std::string>> GraphWithBinaries(std::string_view graph, const MapBinary& map,
                                                     const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
