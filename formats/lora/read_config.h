// PRIVATE: reads adapter_config.json: every key is read, known to have no effect, off, or refused
// by name.
#pragma once

#include <string>
#include <string_view>

#include "formats/lora/config.h"

namespace nxdkit::lora {

// kCorrupt naming the key, found and expected; kUnsupported naming an option that changes the
// meaning of the tensors and is unknown or not supported.
Result<Config> ParseConfig(std::string_view json_text, const std::string& path);

}  // namespace nxdkit::lora
