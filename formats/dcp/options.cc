#include "formats/dcp/options.h"

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::dcp {
namespace {

constexpr std::string_view kStyleNames[] = {"hf", "torchtitan", "torchtitan-2025"};
constexpr int64_t kMaxRanks = 100'000;

}  // namespace

std::string_view StyleName(Style style) { return kStyleNames[static_cast<size_t>(style)]; }

std::optional<Style> StyleFromName(std::string_view name) {
  for (const Style style : {Style::kHf, Style::kTitan, Style::kTitan2025})
    if (StyleName(style) == name) return style;
  return std::nullopt;
}

Result<Mesh> ParseMesh(std::string_view text) {
  Mesh mesh;
  std::string_view rest = text;
  bool has_dp = false;
  bool has_tp = false;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const bool is_dp = part.starts_with("dp=") && !has_dp;
    const bool is_tp = part.starts_with("tp=") && !has_tp;
    const std::optional<int> size =
        is_dp || is_tp ? ParseNumber<int>(part.substr(3)) : std::optional<int>();
    if (!size || *size < 1)
      return BadUsage("--mesh: found \"{}\", expected dp=N, tp=N or both", EscapeControl(text));
    (is_dp ? mesh.dp : mesh.tp) = *size;
    has_dp |= is_dp;
    has_tp |= is_tp;
  }
  if (!has_dp && !has_tp)
    return BadUsage("--mesh: found \"{}\", expected dp=N, tp=N or both", EscapeControl(text));
  if (int64_t{mesh.dp} * mesh.tp > kMaxRanks)
    return BadUsage("--mesh: {} x {} ranks are over the limit of {}", mesh.dp, mesh.tp, kMaxRanks);
  return mesh;
}

}  // namespace nxdkit::dcp
