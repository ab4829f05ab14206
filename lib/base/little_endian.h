// Little-endian numbers, on any machine.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nxdkit {

// The number that starts at bytes[offset]; all its bytes must be there.
template <std::unsigned_integral T>
T LoadLittle(std::string_view bytes, size_t offset = 0) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(T{static_cast<unsigned char>(bytes[offset + i])} << (8 * i));
  return value;
}
template <std::unsigned_integral T>
T LoadLittle(std::span<const std::byte> bytes, size_t offset = 0) {
  return LoadLittle<T>(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                       offset);
}

template <std::unsigned_integral T>
void AppendLittle(T value, std::string& to) {
  for (size_t i = 0; i < sizeof(T); ++i) to += static_cast<char>(value >> (8 * i));
}

}  // namespace nxdkit
