// PRIVATE to formats: what is said of an NxD set, read from arguments.
#pragma once

#include <optional>

#include "formats/kinds/output.h"
#include "formats/nxd/detect.h"

namespace nxdkit::kinds {

// --tp, --pp, --vpp, --ep, --kv-multiplier, --qkv, --hw, --style
nxd::LayoutOptions LayoutOf(const Arguments& arguments);
std::optional<nxd::QkvStyle> QkvFromName(const std::optional<std::string>& name);
// The same of an input, with who says it.
nxd::Claims ClaimsOf(const InputHints& hints);

// The hardware that is taken for a set where neither claims nor contents tell: "hw-if-unknown".
std::optional<models::Hardware> HardwareIfUnknown(const Arguments& arguments);
std::optional<models::Hardware> HardwareFromName(const std::optional<std::string>& name);
// For who needs shapes alone, which are the same on both.
void AssumeHardware(InputHints& hints);

std::optional<nxd::GroupRule> ParamOrderOf(const Arguments& arguments);  // --param-order

}  // namespace nxdkit::kinds
