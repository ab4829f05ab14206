// PRIVATE: the integers of a pickle: two's complement of any length, little-endian (LONG1, LONG4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::torch {

// Longer ones are refused: their conversion to decimal takes time quadratic in the length.
inline constexpr size_t kMaxLongBytes = 64;

// The value when it needs at most 8 bytes.
std::optional<int64_t> LongToInt64(std::string_view bytes);
std::string LongToDecimal(std::string_view bytes);

// The shortest form, as Python writes it: 0 has no bytes at all, 128 is 80 00.
std::string Int64ToLong(int64_t value);
// nullopt when `decimal` is not "-?[0-9]+", or needs more than kMaxLongBytes.
std::optional<std::string> DecimalToLong(std::string_view decimal);

}  // namespace nxdkit::torch
