// The cores that a process may use, as given to the runtime. Source: the Neuron runtime's
// configuration guide (NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::hardware {

inline constexpr char kVisibleCores[] = "NEURON_RT_VISIBLE_CORES";
inline constexpr char kNumberOfCores[] = "NEURON_RT_NUM_CORES";

// Parses "0-3,8" of NEURON_RT_VISIBLE_CORES, in its order. kUsage if it is not such a list, or
// names a core twice.
Result<std::vector<int64_t>> ParseVisibleCores(std::string_view text);

// NEURON_RT_VISIBLE_CORES lists the cores; if it is not set, NEURON_RT_NUM_CORES gives their
// number. With neither, nothing is known.
struct GivenCores {
  std::optional<std::vector<int64_t>> visible{};
  std::optional<int64_t> count{};
  std::string text{};  // "NEURON_RT_VISIBLE_CORES=0-7", as given

  bool any() const { return visible || count; }
  int64_t size() const { return visible ? std::ssize(*visible) : count.value_or(0); }
};
// kUsage naming the variable. A count of 0 is the runtime's notation for all cores.
Result<GivenCores> ParseGivenCores(std::optional<std::string_view> visible,
                                   std::optional<std::string_view> count);
Result<GivenCores> GivenCoresOfProcess();  // the environment's; an empty variable is unset

}  // namespace nxdkit::hardware
