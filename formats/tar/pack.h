// PRIVATE: packs a folder or a file.
#pragma once

#include <optional>

#include "formats/tar/transport.h"
#include "lib/compress/compression.h"

namespace nxdkit::tar {

std::optional<Compression> CompressionFromName(
    std::string_view name);  // "tar", "tar.zst", "tar.gz"
// By the end of a file name; also ".tgz" and ".tzst".
std::optional<Compression> CompressionOf(std::string_view path);

struct PackRequest {
  std::string input;   // a folder, or a file
  std::string output;  // kStream: to standard output, and not atomic
  Compression compression = Compression::kNone;
  std::optional<int> level = std::nullopt;  // of the compression; absent: its default
  bool force = false;                       // replace an existing output
  bool sync = true;
  Hooks hooks = {};
};

// An archive of a file has it as its only entry, named without folders; any such archive is
// unpacked to a file. A folder with only one file is packed with an entry for itself, "./", so that
// it is unpacked to a folder.
//
// Links inside the folder are followed: an archive has none. kUnsupported for anything but a file
// or a folder. For a rollout bundle that is refreshed meanwhile, the archive has the version found
// at the start; kCorrupt when that was never finished.
Result<TransportReport> Pack(const PackRequest& request);

}  // namespace nxdkit::tar
