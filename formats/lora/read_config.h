// PRIVATE: reads adapter_config.json: every key is read, known to say nothing, off, or refused by
// name.
#pragma once

#include <string>
#include <string_view>

#include "formats/lora/config.h"

namespace nxdkit::lora {

// kCorrupt naming the key, found and expected; kUnsupported naming an option that changes what the
// tensors mean and is not known, or known and not supported.
Result<Config> ParseConfig(std::string_view json_text, const std::string& path);

}  // namespace nxdkit::lora
