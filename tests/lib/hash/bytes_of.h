// A text as the bytes that digests and signatures are made of.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace nxdkit::testing_util {

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace nxdkit::testing_util
