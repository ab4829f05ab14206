#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "formats/hf/hf.h"

namespace nxdkit::hf {
namespace {

// As Python's json.dumps writes a string: all but printable ASCII escaped.
std::string Json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string IndexJson(const std::vector<std::pair<std::string, std::string>>& weight_map,
                      uint64_t total_bytes, uint64_t total_parameters) {
  auto sorted = weight_map;
  std::ranges::sort(sorted);
  std::string map;
  for (const auto& [tensor, file] : sorted)
    map += fmt::format("{}\n    {}: {}", map.empty() ? "" : ",", Json(tensor), Json(file));
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
