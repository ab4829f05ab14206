// A text as bytes for digests and signatures.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace nxdkit::testing_util {

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace nxdkit::testing_util
