// PRIVATE: unpacks an archive into files.
#pragma once

#include <optional>

#include "formats/tar/transport.h"

namespace nxdkit::tar {

struct UnpackRequest {
  std::string archive;  // kStream: from standard input
  std::string output;   // the folder, or the file
  int strip = 0;        // leading parts dropped from every name
  // The limit of the files' total size. Absent: kMaxRatio times the bytes read of the archive, and
  // at least kAlwaysBytes.
  std::optional<uint64_t> max_bytes = std::nullopt;
  bool force = false;
  bool sync = true;
  Hooks hooks = {};
};

// Weights of a model compress to two thirds; with an optimizer that has taken no step, whose
// moments are zeros, to a third. Zeros alone, which nobody needs to move, to a thirty-thousandth.
inline constexpr uint64_t kMaxRatio = 100;
inline constexpr uint64_t kAlwaysBytes = uint64_t{1} << 30;

// Every checksum of the archive holds, or nothing is made: kCorrupt. kLimit, before writing, for
// more output than allowed. kUsage when the archive is of a file (see Pack), and there is a folder
// at the output path.
Result<TransportReport> Unpack(const UnpackRequest& request);

}  // namespace nxdkit::tar
