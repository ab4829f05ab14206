// PRIVATE: errors by kind, with the message formatted by fmt.
//   return Corrupt("header length {} is over the limit of {}", n, max).in(path).at(0);
#pragma once

#include <fmt/core.h>

#include "lib/base/error.h"

namespace nxdkit {

Error MakeError(Errc code, fmt::string_view text, fmt::format_args args);

template <typename... T>
Error Corrupt(fmt::format_string<T...> text, T&&... args) {
  return MakeError(Errc::kCorrupt, text, fmt::make_format_args(args...));
}

template <typename... T>
Error Unsupported(fmt::format_string<T...> text, T&&... args) {
  return MakeError(Errc::kUnsupported, text, fmt::make_format_args(args...));
}

template <typename... T>
Error NotFound(fmt::format_string<T...> text, T&&... args) {
  return MakeError(Errc::kNotFound, text, fmt::make_format_args(args...));
}

template <typename... T>
Error BadUsage(fmt::format_string<T...> text, T&&... args) {
  return MakeError(Errc::kUsage, text, fmt::make_format_args(args...));
}

template <typename... T>
Error OverLimit(fmt::format_string<T...> text, T&&... args) {
  return MakeError(Errc::kLimit, text, fmt::make_format_args(args...));
}

}  // namespace nxdkit
