// Options for writing a PyTorch distributed checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::dcp {

// The naming scheme of the parameters.
enum class Style : uint8_t {
  kHf,            // names in checkpoints of transformers, and of its modules before version 5
  kHfFused,       // names of its modules since then: the experts of a layer in one tensor
  kTitan,         // TorchTitan's: the optimizer has q, k and v of a layer as one parameter
  kTitanUnfused,  // for a model made without `fuse_qkv`
  kTitan2025,     // before April 2026, as in 0.2.2
};
inline constexpr Style kStyles[] = {Style::kHf, Style::kHfFused, Style::kTitan,
                                    Style::kTitanUnfused, Style::kTitan2025};
// "hf", "hf-fused", "torchtitan", "torchtitan-unfused", "torchtitan-2025"
std::string_view StyleName(Style style);
std::optional<Style> StyleFromName(std::string_view name);

// The ranks over which the tensors are cut, one file for each: `tp` parts along the dimension that
// tensor parallelism cuts, and `dp` parts of the rows of each of these, as FSDP2 over tensor
// parallelism does. Rank = dp * Mesh::tp + tp.
struct Mesh {
  int dp = 1;
  int tp = 1;
  int ranks() const { return dp * tp; }
};

// "dp=4,tp=2", "dp=8". kUsage for anything else, and for more than 100,000 ranks.
Result<Mesh> ParseMesh(std::string_view text);

}  // namespace nxdkit::dcp
