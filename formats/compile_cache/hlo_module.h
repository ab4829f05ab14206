// The texts in a graph (graph.hlo, an HloModuleProto of XLA) where a backend's configuration
// stands. Facts: FORMAT.md beside this file.
//
// The wire format of protobuf is walked only along the fields that lead there; all others are
// passed over by their length. Four messages lie in each other at most, so that nothing recurses
// deeper.
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

// Where a configuration stands in the bytes of the graph.
struct BackendConfig {
  uint64_t offset = 0;
  std::string_view text;  // a view into the graph
};

// More are not noted: a record of three bytes would take eight times as many.
inline constexpr size_t kMostConfigs = 4'000'000;

// kCorrupt with the offset for what is no module: fields that end outside of what holds them, wire
// types that do not exist, no computation at all. kUnsupported for more than kMostConfigs.
Result<std::vector<BackendConfig>> FindBackendConfigs(std::string_view graph);

// Gives the text that is to stand in the place of a configuration; nullopt: it stays.
using ReplaceConfig = std::function<Result<std::optional<std::string>>(const BackendConfig&)>;

// The graph with other configurations, and the lengths of all messages around them as they have to
// be then; every other byte as it was. nullopt when none was replaced. `poll` is asked in between.
Result<std::optional<std::string>> ReplaceBackendConfigs(std::string_view graph,
                                                         const ReplaceConfig& replace,
                                                         const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
