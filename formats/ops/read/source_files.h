// PRIVATE to formats/ops/read: the files that an artifact's values lie in, as they were when they
// were opened. Values that are read later, from a file that somebody has written to meanwhile, are
// nobody's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/artifact/bound.h"
#include "lib/system/look.h"

namespace nxdkit::ops {

// Immutable once made; thread-safe.
class SourceFiles {
 public:
  // Looks at each file once: those of the artifact, and those of a base and an adapter, of which
  // its values are computed. Of those that `before` knows, nullptr for none, what it saw counts.
  static Result<SourceFiles> LookAtAll(const BoundArtifact& source, const SourceFiles* before);

  // The files that these stored tensors are read from, each once. `source` is that of LookAtAll.
  std::vector<uint32_t> FilesOf(const BoundArtifact& source,
                                std::span<const uint32_t> stored) const;
  // kCorrupt for the first of them that is not what it was: another file, of another size, or
  // written to. Looks at each.
  Status CheckUnchanged(std::span<const uint32_t> files) const;

 private:
  using ByParam = std::unordered_map<std::string, std::vector<uint32_t>>;

  struct Seen {
    std::string path;
    PathInfo info;
  };

  // The state of a storage's file when it was opened; nullopt for what lies in memory.
  Result<std::optional<PathInfo>> FirstLook(const std::string& path) const;
  // The number of that file.
  Result<std::optional<uint32_t>> NumberOf(const StoredTensor& stored);
  // The files that the values of each parameter of an artifact come from.
  Result<ByParam> FilesByParam(const BoundArtifact& artifact);
  Result<ByParam> ComputedFrom(const BoundArtifact& artifact);

  std::vector<Seen> files_;
  std::unordered_map<std::string, std::optional<uint32_t>> numbers_;
  std::vector<std::optional<uint32_t>> own_;  // of each stored tensor
  ByParam computed_from_;                     // of what is not stored as it is read
  const SourceFiles* before_ = nullptr;       // while it is made
};

}  // namespace nxdkit::ops
