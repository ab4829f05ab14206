// PRIVATE: an archive of a folder or a file.
#pragma once

#include <optional>

#include "formats/tar/transport.h"
#include "lib/compress/compression.h"

namespace nxdkit::tar {

std::optional<Compression> CompressionFromName(
    std::string_view name);  // "tar", "tar.zst", "tar.gz"
// By how a file's name ends; also ".tgz" and ".tzst".
std::optional<Compression> CompressionOf(std::string_view path);

struct PackRequest {
  std::string input;   // a folder, or a file
  std::string output;  // kStream: to standard output, and not atomic
  Compression compression = Compression::kNone;
  std::optional<int> level = std::nullopt;  // of the compression; absent: its own default
  bool force = false;                       // replace an existing output
  bool sync = true;
  Hooks hooks = {};
};

// An archive of a file has it as its one entry, under its own name without folders; whatever has
// exactly that is unpacked to a file. A folder that holds one file alone is packed with an entry of
// its own, "./", so that it comes back as a folder.
// Links inside the folder are followed: an archive has none. kUnsupported for what is neither a
// file nor a folder. Of a rollout bundle that is refreshed meanwhile the archive has the version
// that it found; kCorrupt when that was never finished.
Result<TransportReport> Pack(const PackRequest& request);

}  // namespace nxdkit::tar
