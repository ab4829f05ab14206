// PRIVATE to formats: the options of an NxD set, read from arguments.
#pragma once

#include <optional>

#include "formats/kinds/output.h"
#include "formats/nxd/detect.h"

namespace nxdkit::kinds {

// --tp, --pp, --vpp, --ep, --kv-multiplier, --qkv, --hw, --style
nxd::LayoutOptions LayoutOf(const Arguments& arguments);
std::optional<nxd::QkvStyle> QkvFromName(const std::optional<std::string>& name);
// The same for an input, with who claims it.
nxd::Claims ClaimsOf(const InputHints& hints);

// The hardware to assume for a set if neither claims nor contents tell: "hw-if-unknown".
std::optional<models::Hardware> HardwareIfUnknown(const Arguments& arguments);
std::optional<models::Hardware> HardwareFromName(const std::optional<std::string>& name);
// For callers that need only shapes, which are the same on both.
void AssumeHardware(InputHints& hints);

std::optional<nxd::GroupRule> ParamOrderOf(const Arguments& arguments);  // --param-order

}  // namespace nxdkit::kinds
