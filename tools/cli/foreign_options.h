// PRIVATE to tools/: options of the vendor's converters and of engines, for those who type them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::tool {

// What to say instead of `option`, a long one with its dashes, "_" and "-" alike; nullopt when it
// is nobody's that we know. Source: NxD's checkpoint_converter.py, optimum-cli export neuron, vllm
// serve.
std::optional<std::string> OurWordFor(std::string_view option);

}  // namespace nxdkit::tool
