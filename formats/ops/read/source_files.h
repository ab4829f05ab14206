// PRIVATE to formats/ops/read: the files that hold an artifact's values, in their state when they
// were opened. Values read later, from a file that was written to meanwhile, would belong to no
// version.
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
  // Looks at each file once: the artifact's, and those of a base and an adapter from which its
  // values are computed. For files known to `before`, nullptr for none, its state is used.
  static Result<SourceFiles> LookAtAll(const BoundArtifact& source, const SourceFiles* before);

  // The files from which these stored tensors are read, each once. `source` is that of LookAtAll.
  std::vector<uint32_t> FilesOf(const BoundArtifact& source,
                                std::span<const uint32_t> stored) const;
  // kCorrupt for the first of them that has changed: replaced, of another size, or written to.
  // Looks at each.
  Status CheckUnchanged(std::span<const uint32_t> files) const;

 private:
  using ByParam = std::unordered_map<std::string, std::vector<uint32_t>>;

  struct Seen {
    std::string path;
    PathInfo info;
  };

  // The state of a storage's file when it was opened; nullopt for a storage in memory.
  Result<std::optional<PathInfo>> FirstLook(const std::string& path) const;
  // The number of that file.
  Result<std::optional<uint32_t>> NumberOf(const StoredTensor& stored);
  // The files that the values of each parameter of an artifact come from.
  Result<ByParam> FilesByParam(const BoundArtifact& artifact);
  Result<ByParam> ComputedFrom(const BoundArtifact& artifact);

  std::vector<Seen> files_;
  std::unordered_map<std::string, std::optional<uint32_t>> numbers_;
  std::vector<std::optional<uint32_t>> own_;  // for each stored tensor
  ByParam computed_from_;                     // for values that are computed, not stored
  const SourceFiles* before_ = nullptr;       // only while it is made
};

}  // namespace nxdkit::ops
