#include "tools/common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace nxdkit::tool {
namespace {

// Levenshtein distance, one row at a time.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

size_t SharedPrefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::string EscapeControl(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

std::optional<std::string> ClosestWord(std::string_view found,
                                       const std::vector<std::string>& words) {
  size_t best = std::max<size_t>(1, found.size() / 3) + 1;
  std::optional<std::string> closest;
  for (const std::string& word : words) {
    const size_t distance = EditDistance(found, word);
    if (distance > best) continue;
    // Of equally near words, the one that begins alike: --tpp is --tp before it is --top.
    if (distance == best &&
        (!closest || SharedPrefix(found, word) <= SharedPrefix(found, *closest)))
      continue;
    best = distance;
    closest = word;
  }
  return closest;
}

}  // namespace nxdkit::tool
