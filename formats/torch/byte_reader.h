// Little-endian numbers out of bytes that came from a file: every read is checked.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nxdkit::torch {

// The first sizeof(T) bytes of `bytes`, which must hold them.
template <std::unsigned_integral T>
T LittleEndian(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  return value;
}

// A cursor over bytes it does not own. A read that does not fit leaves the cursor where it is.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes, size_t position = 0)
      : bytes_(bytes), position_(position) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  std::optional<std::string_view> Take(uint64_t count) {
    if (count > left()) return std::nullopt;
    const std::string_view taken = bytes_.substr(position_, static_cast<size_t>(count));
    position_ += taken.size();
    return taken;
  }

  template <std::unsigned_integral T>
  std::optional<T> Number() {
    const std::optional<std::string_view> taken = Take(sizeof(T));
    if (!taken) return std::nullopt;
    return LittleEndian<T>(*taken);
  }

  // Up to the next newline, which is taken too but not returned.
  std::optional<std::string_view> Line() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return line;
  }

 private:
  std::string_view bytes_;
  size_t position_;
};

}  // namespace nxdkit::torch
