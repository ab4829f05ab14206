// PRIVATE to tools/: the object behind an nxdkit_source, and how it is made from a request.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/ops/read/reader.h"
#include "lib/json/json.h"
#include "tools/cli/host.h"
#include "tools/library/nxdkit.h"

struct nxdkit_source {
  std::string name;  // a path, or the caller's name for its memory
  std::shared_ptr<const nxdkit::artifact::BoundArtifact> bound;
  nxdkit::ops::TensorReader reader;  // reads `bound`
  // For commands; nullopt for a rank of a layout, which is not an artifact.
  std::optional<nxdkit::tool::HeldSource> held;
  std::string index;  // JSON
};

namespace nxdkit::tool {

using SourcePointer = std::unique_ptr<nxdkit_source>;

Result<SourcePointer> OpenPath(const Json& request);
Result<SourcePointer> OpenMemorySource(const Json& request, const void* const* data);
Result<SourcePointer> OpenRankSource(const nxdkit_source& of, const Json& request);

}  // namespace nxdkit::tool
