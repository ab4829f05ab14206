#include "formats/torch/pickle_numbers.h"

#include <algorithm>
#include <vector>

namespace nxdkit::torch {
namespace {

bool IsNegative(std::string_view bytes) {
  return !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
}

// Two's complement: every bit flipped, plus one.
void Negate(std::vector<uint8_t>& bytes) {
  unsigned carry = 1;
  for (uint8_t& byte : bytes) {
    const unsigned sum = static_cast<uint8_t>(~byte) + carry;
    byte = static_cast<uint8_t>(sum);
    carry = sum >> 8;
  }
}

// `bytes` without those at the end that only repeat the sign.
std::string_view WithoutSignBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const bool sign_below = IsNegative(bytes.substr(0, bytes.size() - 1));
    if (bytes.back() != (sign_below ? '\xff' : '\0')) break;
    bytes.remove_suffix(1);
  }
  return bytes;
}

// Drops the upper bytes that only repeat the sign.
std::string Shortest(const std::vector<uint8_t>& bytes) {
  return std::string(WithoutSignBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace

std::optional<int64_t> LongToInt64(std::string_view bytes) {
  bytes = WithoutSignBytes(bytes);
  if (bytes.size() > 8) return std::nullopt;
  uint64_t value = IsNegative(bytes) ? UINT64_MAX : 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return static_cast<int64_t>(value);
}

std::string LongToDecimal(std::string_view bytes) {
  std::vector<uint8_t> magnitude(bytes.begin(), bytes.end());
  const bool negative = IsNegative(bytes);
  if (negative) Negate(magnitude);
  std::string digits;  // lowest first
  while (std::ranges::any_of(magnitude, [](uint8_t byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (size_t i = magnitude.size(); i-- > 0;) {
      const unsigned value = (rest << 8) | magnitude[i];
      magnitude[i] = static_cast<uint8_t>(value / 10);
      rest = value % 10;
    }
    digits.push_back(static_cast<char>('0' + rest));
  }
  if (digits.empty()) digits.push_back('0');
  if (negative) digits.push_back('-');
  std::ranges::reverse(digits);
  return digits;
}

std::string Int64ToLong(int64_t value) {
  std::vector<uint8_t> bytes(8);
  for (size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  return Shortest(bytes);
}

std::optional<std::string> DecimalToLong(std::string_view decimal) {
  const bool negative = decimal.starts_with('-');
  if (negative) decimal.remove_prefix(1);
  if (decimal.empty() || decimal.size() > kMaxLongBytes * 5 / 2) return std::nullopt;
  std::vector<uint8_t> bytes;
  for (const char digit : decimal) {
    if (digit < '0' || digit > '9') return std::nullopt;
    unsigned carry = static_cast<unsigned>(digit - '0');
    for (uint8_t& byte : bytes) {
      const unsigned value = byte * 10u + carry;
      byte = static_cast<uint8_t>(value);
      carry = value >> 8;
    }
    if (carry != 0) bytes.push_back(static_cast<uint8_t>(carry));
  }
  bytes.push_back(0);  // room for the sign
  if (negative) Negate(bytes);
  std::string shortest = Shortest(bytes);
  if (shortest.size() > kMaxLongBytes) return std::nullopt;
  return shortest;
}

}  // namespace nxdkit::torch
