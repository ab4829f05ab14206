// Files that did not arrive, with something else under their name: a git-lfs pointer, a web page,
// an answer of an object store, nothing, or zeros. Source of the pointer's form: git-lfs,
// docs/spec.md.
#pragma once

#include <optional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit {

// kCorrupt, with what was found and how to get the file; nullopt if it is none of these, or cannot
// be read. Reads only the first 4 KiB. WrongAnswer does not cover empty files and zeros, where a
// format's own reader may know more.
std::optional<Error> BrokenDownload(const std::string& path);
std::optional<Error> WrongAnswer(const std::string& path);

// For a reader that failed: the error above if it applies, else `error`.
Error OrBrokenDownload(Error error, const std::string& path);
Error OrWrongAnswer(Error error, const std::string& path);

// `read`, with its error explained in this way.
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
