#include "formats/hf/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::hf {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 4> kUnits = {{{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error BadSize(const std::string& text, std::string_view why) {
  return BadUsage("shard size \"{}\": {}", text, why)
      .hint("a number of bytes, or a number with KB, MB, GB or TB (powers of 1000): 5GB");
}

}  // namespace

std::vector<std::vector<size_t>> SplitShards(const std::vector<uint64_t>& bytes, uint64_t limit) {
  std::vector<std::vector<size_t>> shards;
  std::vector<size_t> open;
  uint64_t open_bytes = 0;  // never over the limit
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > limit) {  // gets its own shard; the open one stays open
      shards.push_back({i});
      continue;
    }
    if (bytes[i] > limit - open_bytes) {
      shards.push_back(std::move(open));
      open.clear();
      open_bytes = 0;
    }
    open.push_back(i);
    open_bytes += bytes[i];
  }
  if (!open.empty()) shards.push_back(std::move(open));
  return shards;
}

Result<uint64_t> ParseShardSize(const std::string& text) {
  const std::string_view trimmed = Trimmed(text);
  if (const std::optional<uint64_t> bytes = ParseNumber<uint64_t>(trimmed)) {
    if (*bytes == 0) return BadSize(text, "must be at least one byte");
    return *bytes;
  }
  if (trimmed.size() < 2) return BadSize(text, "not a size");
  std::string unit_name(trimmed.substr(trimmed.size() - 2));
  for (char& c : unit_name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto unit = std::ranges::find(kUnits, std::string_view(unit_name), &Unit::name);
  if (unit == kUnits.end()) return BadSize(text, fmt::format("unit '{}' is not known", unit_name));

  const std::string_view number_text = Trimmed(trimmed.substr(0, trimmed.size() - 2));
  const bool plus = number_text.starts_with('+') && !number_text.starts_with("+-");
  const std::optional<double> number = ParseNumber<double>(number_text.substr(plus ? 1 : 0));
  if (!number) return BadSize(text, fmt::format("\"{}\" is not a number", number_text));
  const double bytes = std::trunc(*number * unit->bytes);  // in double, as Python does it
  if (!(bytes >= 1)) return BadSize(text, "must be at least one byte");
  if (!(bytes < 0x1p63)) return BadSize(text, "is over 2^63 bytes");
  return static_cast<uint64_t>(bytes);
}

std::string ShardName(size_t index, size_t count) {
  if (count <= 1) return "model.safetensors";
  return fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

std::string IndexJson(const std::vector<std::pair<std::string, std::string>>& weight_map,
                      uint64_t total_bytes, uint64_t total_parameters) {
  auto sorted = weight_map;
  std::ranges::sort(sorted);
  std::string map;
  for (const auto& [tensor, file] : sorted)
    map +=
        fmt::format("{}\n    {}: {}", map.empty() ? "" : ",", DumpPython(tensor), DumpPython(file));
  return fmt::format(
      "{{\n"
      "  \"metadata\": {{\n"
      "    \"total_parameters\": {},\n"
      "    \"total_size\": {}\n"
      "  }},\n"
      "  \"weight_map\": {{{}}}\n"
      "}}\n",
      total_parameters, total_bytes, map.empty() ? map : map + "\n  ");
}

}  // namespace nxdkit::hf
