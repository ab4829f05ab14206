// The devices for which a blob is compiled: the compiler is told, and a cache shared by several
// kinds of machines keeps one for each.
#pragma once

#include <optional>
#include <string>

#include "formats/hardware/instance.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

// Compilers take the target from here before they look for devices.
inline constexpr char kTargetVariable[] = "NEURON_PLATFORM_TARGET_OVERRIDE";

struct ExportTarget {
  // "trn1", "trn2"; an inf2 and a trn1n count as trn1 (their code is the same). "": not known.
  std::string name;
  std::string pass;  // what the compiler must be told; "": it knows
};
// `variable`: the value of kTargetVariable; then the given instance, then this machine. kUsage if
// the variable and the given instance differ.
Result<ExportTarget> DecideTarget(const std::string& variable,
                                  const std::optional<hardware::Instance>& instance,
                                  const std::optional<hardware::Instance>& here);

}  // namespace nxdkit::ops
