// Arithmetic on numbers that came from a file: nullopt instead of wrapping.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

namespace nxdkit {

template <std::integral T>
std::optional<T> CheckedAdd(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
std::optional<T> CheckedMul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Converts between integer types; nullopt when the value does not fit.
template <std::integral To, std::integral From>
std::optional<To> CheckedCast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

}  // namespace nxdkit
