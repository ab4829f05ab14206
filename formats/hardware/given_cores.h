// The cores that a process may use, as the runtime is told of them. Source: the Neuron runtime's
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

// "0-3,8" of NEURON_RT_VISIBLE_CORES, in its order. kUsage when it is not such a list, or names a
// core twice.
Result<std::vector<int64_t>> ParseVisibleCores(std::string_view text);

// NEURON_RT_VISIBLE_CORES says which, and where it is not set NEURON_RT_NUM_CORES says how many.
// Where neither is set, nothing is known of devices.
struct GivenCores {
  std::optional<std::vector<int64_t>> visible{};
  std::optional<int64_t> count{};
  std::string text{};  // "NEURON_RT_VISIBLE_CORES=0-7", as it was given

  bool any() const { return visible || count; }
  int64_t size() const { return visible ? std::ssize(*visible) : count.value_or(0); }
};
// kUsage naming the variable. A count of 0 is the runtime's own word for all that there are.
Result<GivenCores> ParseGivenCores(std::optional<std::string_view> visible,
                                   std::optional<std::string_view> count);
Result<GivenCores> GivenCoresOfProcess();  // of the environment; an empty variable is not set

}  // namespace nxdkit::hardware
