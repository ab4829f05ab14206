// PRIVATE: any folder or file as one .tar, .tar.zst or .tar.gz stream, and back, for moving
// artifacts to object stores and between machines. Streaming both ways; the bytes of an archive
// depend on names, contents and options only, not on times, owners or machines.
//
// Archives are not trusted: only plain files and folders below the output are made; links, devices,
// absolute names, "..", and duplicate names are kCorrupt, and nothing is left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::tar {

// The name of standard output or input.
inline constexpr std::string_view kStream = "-";

struct Hooks {
  std::function<Status()> poll;                             // kInterrupted stops the work
  std::function<void(const std::string&, uint64_t)> begin;  // a phase with its bytes (0: unknown)
  std::function<void(uint64_t bytes)> on_bytes;             // bytes of files done
};

struct TransportReport {
  bool single_file = false;  // the archive is of a file, not a folder
  uint64_t files = 0;
  uint64_t bytes = 0;          // of the files
  uint64_t archive_bytes = 0;  // of the archive
  bool has_checksum = false;   // of every byte: what was read is what was written
};

inline constexpr size_t kMaxNameBytes = 4096;
inline constexpr size_t kMaxDepth = 64;

// A name inside an archive as a path below the output: no "." parts, no trailing "/", the first
// `strip` parts dropped. Empty when nothing is left (the top folder itself). kCorrupt for an
// absolute name, "..", NUL bytes, and names over the limits.
Result<std::string> SafeName(std::string_view name, int strip);

}  // namespace nxdkit::tar
