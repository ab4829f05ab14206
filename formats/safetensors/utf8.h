// Stand-in until lib/utf8.h is there.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
namespace nxdkit::safetensors {
inline std::optional<size_t> InvalidUtf8(std::string_view s) {
  const auto at = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  for (size_t i = 0; i < s.size();) {
    const unsigned b = at(i);
    if (b < 0x80) { ++i; continue; }
    size_t n; unsigned lo = 0x80, hi = 0xbf;
    if (b >= 0xc2 && b <= 0xdf) n = 2;
    else if (b >= 0xe0 && b <= 0xef) { n = 3; if (b == 0xe0) lo = 0xa0; if (b == 0xed) hi = 0x9f; }
    else if (b >= 0xf0 && b <= 0xf4) { n = 4; if (b == 0xf0) lo = 0x90; if (b == 0xf4) hi = 0x8f; }
    else return i;
    if (at(i + 1) < lo || at(i + 1) > hi) return i;
    for (size_t k = 2; k < n; ++k) if (at(i + k) < 0x80 || at(i + k) > 0xbf) return i;
    i += n;
  }
  return std::nullopt;
}
}
