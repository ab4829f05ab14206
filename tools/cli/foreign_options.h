// PRIVATE to tools/: options of the vendor's converters and of engines, for those who type them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::tool {

// "here it is --tp", "leave it out: ..." for `option`, a long one with its dashes, "_" and "-"
// alike; nullopt when it is nobody's that we know. Source: NxD's checkpoint_converter.py,
// optimum-cli export neuron, vllm serve.
std::optional<std::string> AnswerTo(std::string_view option);

}  // namespace nxdkit::tool
