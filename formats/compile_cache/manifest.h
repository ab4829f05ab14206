// PRIVATE: nxdkit-entry.json: the contents of our entry in a compile cache, so that a truncated or
// changed file is found before it is used.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

struct ManifestFile {
  std::string name;  // one path component
  uint64_t bytes = 0;
  std::string digest;  // "sha256:<hex>"

  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::string summary;  // for people: "llama, tp 8, batch size 64, sequence length 4096, bfloat16"
  std::vector<ManifestFile> files;
  // The compiler's wall-clock time; nullopt where the maker did not record it.
  std::optional<double> compile_seconds{};

  bool operator==(const Manifest&) const = default;
};

// Sorted keys, indent 2, a line feed at the end.
std::string WriteManifest(const Manifest& manifest);
// Reads the file at `path`, of at most 1 MiB. kCorrupt naming the key; names with a '/', more than
// 1000 files and seconds that are not a duration are refused.
Result<Manifest> ReadManifest(const std::string& path);

// "sha256:<hex>" of a file; `poll` is called between blocks.
Result<std::string> DigestFile(const std::string& path, const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
