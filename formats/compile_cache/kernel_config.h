// The configuration of a kernel: base64 of a JSON text that names the kernel's binary by an
// absolute path. The same text is in nki/<key>.json and in graph.hlo. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

// The path of the binary (klir_binary.binary); nullopt when the text is not a kernel's
// configuration.
std::optional<std::string> BinaryOfConfig(std::string_view base64);
// The text with another path; every other byte of the JSON is unchanged. kUnsupported when the path
// is not written as Python's json writes it.
Result<std::string> ConfigWithBinary(std::string_view base64, const std::string& binary);
// The configuration without the path: equal texts are the same kernel.
std::string ConfigWithoutBinary(std::string_view base64);

// Replaces the string at `keys` in the text of a JSON object, in place. kUnsupported as above.
Result<std::string> ReplaceJsonString(std::string_view text, const std::vector<std::string>& keys,
                                      const std::string& value);

// A kernel that a graph names.
struct GraphKernel {
  uint64_t offset = 0;  // where its configuration begins in the graph
  std::string binary;
};
// kUnsupported when the graph has a configuration in an unknown place, or too many: the list could
// then be incomplete. The time is in proportion to the bytes; `poll` is called regularly.
Result<std::vector<GraphKernel>> KernelsOfGraph(std::string_view graph,
                                                const std::function<Status()>& poll = {});

// Returns the new path of a binary; nullopt: it stays.
using MapBinary = std::function<std::optional<std::string>(const std::string& binary)>;
// The graph with new paths; nullopt when none changes. Errors as in KernelsOfGraph.
Result<std::optional<std::string>> GraphWithBinaries(std::string_view graph, const MapBinary& map,
                                                     const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
