// PRIVATE to formats. An adapter as PEFT saves it: one file of tensors, and what they mean in
// adapter_config.json.
#pragma once

#include <string>

#include "formats/artifact/lora/lora_parts.h"

namespace nxdkit::ops {

// The file of an adapter's tensors in a folder, as PEFT and NxD name it; "" when there is none.
Result<std::string> LoraFile(const std::string& folder);

// Whether this is an adapter in PEFT's form: a folder, or its file of tensors.
Result<bool> LooksLikePeft(const std::string& path);

// Fills in `out`, whose artifact has its path.
Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing);

}  // namespace nxdkit::ops
