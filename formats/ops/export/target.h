// Which devices a blob is compiled for: the compiler is told it, and a cache that several kinds of
// machines share keeps one of each.
#pragma once

#include <optional>
#include <string>

#include "formats/hardware/instance.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

// Compilers take the target from here before they ask for devices.
inline constexpr char kTargetVariable[] = "NEURON_PLATFORM_TARGET_OVERRIDE";

struct ExportTarget {
  // "trn1", "trn2"; an inf2 and a trn1n are a trn1 (their code is the same). "": nobody says it.
  std::string name;
  std::string pass;  // what the compiler is to be told besides; "": it knows
};
// `variable`: the value of kTargetVariable; then the instance that was named, then this machine.
// kUsage where the variable and the instance that was named differ.
Result<ExportTarget> DecideTarget(const std::string& variable,
                                  const std::optional<hardware::Instance>& instance,
                                  const std::optional<hardware::Instance>& here);

}  // namespace nxdkit::ops
