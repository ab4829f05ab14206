// What lies under a file's name where the file itself did not arrive: a git-lfs pointer, a web
// page, an answer of an object store, nothing, or zeros.
// Source of the pointer's form: git-lfs, docs/spec.md.
#pragma once

#include <optional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit {

// kCorrupt, with what is there and how the file is had; nullopt: it is none of these, or cannot be
// read. Reads the first 4 KiB alone. WrongAnswer has no word for nothing and for zeros, of which a
// format's own reader may say more.
std::optional<Error> BrokenDownload(const std::string& path);
std::optional<Error> WrongAnswer(const std::string& path);

// For who could not read the file: their word where they have one, else `error`.
Error OrBrokenDownload(Error error, const std::string& path);
Error OrWrongAnswer(Error error, const std::string& path);

// `read`, with the error so explained.
template <typename T>
Result<T> OrBrokenDownload(Result<T> read, const std::string& path) {
  if (read.ok()) return read;
  return OrBrokenDownload(std::move(read).error(), path);
}
template <typename T>
Result<T> OrWrongAnswer(Result<T> read, const std::string& path) {
  if (read.ok()) return read;
  return OrWrongAnswer(std::move(read).error(), path);
}

}  // namespace nxdkit
