#include <algorithm>

#include "formats/kinds/bind.h"
#include "formats/kinds/nkipy/read_nkipy.h"

namespace nxdkit::kinds {
namespace {

// Only the shape shows whether the embedding is whole.
nkipy::Geometry GeometryOf(const BoundArtifact& out) {
  nkipy::Geometry geometry{static_cast<int>(out.artifact.files.size())};
  for (const StoredTensor& stored : out.artifact.files.front().tensors)
    if (stored.name == "tok_embedding" && stored.shape.size() == 2 &&
        stored.shape[1] == out.model->config.hidden)
      geometry.embedding = nkipy::Embedding::kWhole;
  return geometry;
}

}  // namespace

Status BindNkipy(BoundArtifact& out, const InputHints&) {
  NXDKIT_TRY(RequireFamily(out));
  const nkipy::Geometry geometry = GeometryOf(out);
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const int rank = static_cast<int>(f);
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  nkipy::RankTensors(*out.model, geometry, rank).in(out.artifact.path));
    const NameMap known = ByName(std::move(tensors));
    NXDKIT_TRY(BindFile(out, f, known, UnwrapFiles(out.artifact, f, f + 1, known)).rank(rank));
  }
  return OkStatus();
}

}  // namespace nxdkit::kinds
