#include "formats/dcp/options.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::dcp {
namespace {

constexpr std::string_view kStyleNames[] = {"hf", "hf-fused", "torchtitan", "torchtitan-unfused",
                                            "torchtitan-2025"};
constexpr int64_t kMaxRanks = 100'000;

}  // namespace

std::string_view StyleName(Style style) { return kStyleNames[static_cast<size_t>(style)]; }

std::optional<Style> StyleFromName(std::string_view name) {
  for (const Style style : kStyles)
    if (StyleName(style) == name) return style;
  return std::nullopt;
}

Result<Mesh> ParseMesh(std::string_view text) {
  const auto wrong = [&] {
    return BadUsage("--mesh: found \"{}\", expected dp=N, tp=N or both", EscapeControl(text));
  };
  Mesh mesh;
  bool has_dp = false;
  bool has_tp = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const bool is_dp = part.starts_with("dp=") && !has_dp;
    const bool is_tp = part.starts_with("tp=") && !has_tp;
    if (!is_dp && !is_tp) return wrong();
    const std::optional<int> size = ParseNumber<int>(part.substr(3));
    if (!size || *size < 1) return wrong();
    (is_dp ? mesh.dp : mesh.tp) = *size;
    has_dp |= is_dp;
    has_tp |= is_tp;
  }
  if (int64_t{mesh.dp} * mesh.tp > kMaxRanks)
    return BadUsage("--mesh: {} x {} ranks are over the limit of {}", mesh.dp, mesh.tp, kMaxRanks);
  return mesh;
}

}  // namespace nxdkit::dcp
