// The backend configurations in a graph (graph.hlo, an HloModuleProto of XLA). Facts: FORMAT.md.
//
// The protobuf wire format is parsed only along the fields that lead to them; all others are
// skipped by their length. At most four messages are nested, so recursion goes no deeper.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

inline constexpr uint64_t kMaxGraphBytes = uint64_t{512} << 20;

// The place of a configuration in the bytes of the graph.
struct BackendConfig {
  uint64_t offset = 0;
  std::string_view text;  // a view into the graph
};

// The most that are recorded: three bytes of a graph would take eight times as much memory.
inline constexpr size_t kMostConfigs = 4'000'000;

// kCorrupt with the offset for anything that is not a module: fields that end outside their
// message, wire types that do not exist, no computation at all. kUnsupported for more than
// kMostConfigs.
Result<std::vector<BackendConfig>> FindBackendConfigs(std::string_view graph);

// Returns the text that replaces a configuration; nullopt: it stays.
using ReplaceConfig = std::function<Result<std::optional<std::string>>(const BackendConfig&)>;

// The graph with the new configurations, and the lengths of all messages around them adjusted;
// every other byte is unchanged. nullopt when none was replaced. `poll` is called regularly.
Result<std::optional<std::string>> ReplaceBackendConfigs(std::string_view graph,
                                                         const ReplaceConfig& replace,
                                                         const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
