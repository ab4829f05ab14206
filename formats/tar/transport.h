// Any folder or file as one .tar, .tar.zst or .tar.gz stream, and back: how an artifact travels to
// object stores and between machines. Streaming both ways; the bytes of an archive depend on names,
// contents and options only, not on times, owners or machines.
//
// What is read is not trusted: only plain files and folders below the output are made; links,
// devices, absolute names, "..", and names that come twice are kCorrupt, and nothing is left.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::tar {

enum class Compression : uint8_t { kNone, kZstd, kGzip };
std::string_view CompressionName(Compression compression);  // "tar", "tar.zst", "tar.gz"
std::optional<Compression> CompressionFromName(std::string_view name);
// By how a file's name ends; also ".tgz" and ".tzst".
std::optional<Compression> CompressionOf(std::string_view path);

// A name that stands for standard output or input.
inline constexpr std::string_view kStream = "-";

struct Hooks {
  std::function<Status()> poll;                             // kInterrupted stops the work
  std::function<void(const std::string&, uint64_t)> begin;  // a phase with its bytes (0: unknown)
  std::function<void(uint64_t bytes)> on_bytes;             // bytes of files done
};

struct PackRequest {
  std::string input;   // a folder, or a file
  std::string output;  // kStream: to standard output, and not atomic
  Compression compression = Compression::kNone;
  std::optional<int> level = std::nullopt;  // of the compression; absent: its own default
  bool force = false;                       // replace an existing output
  bool sync = true;
  Hooks hooks = {};
};

struct UnpackRequest {
  std::string archive;  // kStream: from standard input
  std::string output;   // the folder, or the file
  int strip = 0;        // leading parts of every name that are dropped
  bool force = false;
  bool sync = true;
  Hooks hooks = {};
};

struct TransportReport {
  bool single_file = false;  // what is outside the archive is a file, no folder
  uint64_t files = 0;
  uint64_t bytes = 0;          // of the files
  uint64_t archive_bytes = 0;  // of the archive
};

// An archive of a file has it as its one entry, under its own name without folders; whatever has
// exactly that is unpacked to a file. A folder that holds one file alone is packed with an entry of
// its own, "./", so that it comes back as a folder. Unpacking is kUsage when there is a folder
// where the file would be.
// Links inside the folder are followed: an archive has none. kUnsupported for what is neither a
// file nor a folder. Of a rollout bundle that is refreshed meanwhile the archive has the version
// that it found; kCorrupt when that was never finished.
Result<TransportReport> Pack(const PackRequest& request);
Result<TransportReport> Unpack(const UnpackRequest& request);

}  // namespace nxdkit::tar
