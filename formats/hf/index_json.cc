#include <fmt/core.h>

#include <algorithm>

#include "formats/hf/hf.h"
#include "lib/json/json.h"

namespace nxdkit::hf {
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
