#include "formats/ops/export/target.h"

#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

std::string CodeOf(const std::string& target) {
  return target == "inf2" || target == "trn1n" ? "trn1" : target;
}

}  // namespace

Result<ExportTarget> DecideTarget(const std::string& variable,
                                  const std::optional<hardware::Instance>& instance,
                                  const std::optional<hardware::Instance>& here) {
  const std::string named = instance ? CodeOf(instance->platform) : "";
  if (!variable.empty()) {
    if (!named.empty() && named != CodeOf(variable))
      return BadUsage("{}={}, but --instance {} has {} devices", kTargetVariable, variable,
                      instance->name, named)
          .hint("unset the variable: --instance gives the target");
    return ExportTarget{CodeOf(variable), ""};
  }
  if (!named.empty()) return ExportTarget{named, named};
  return ExportTarget{here ? CodeOf(here->platform) : "", ""};
}

}  // namespace nxdkit::ops
