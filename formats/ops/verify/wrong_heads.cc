#include "formats/ops/verify/wrong_heads.h"

#include <fmt/core.h>

#include <array>
#include <cstring>

#include "formats/models/gqa.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {
namespace {

using models::Role;

// Rows and columns that are compared: a strip of a head is enough to tell heads apart.
constexpr int64_t kStrip = 64;

// The first elements of head `head` of a parameter, [strip rows or columns], as its layout stores
// them; empty when they do not lie in one piece.
Result<std::vector<std::byte>> ReadStrip(const BoundLayout& bound, const LogicalTensor& param,
                                         uint32_t index, int64_t head, Dtype dtype) {
  const int dim = param.head_dim;
  Box strip = WholeBox(param.shape);
  strip.lo[dim] = head * param.head_rows;
  strip.extent[dim] = 1;
  if (param.shape.size() == 2) strip.extent[1 - dim] = std::min(strip.extent[1 - dim], kStrip);
  std::vector<std::byte> bytes(strip.Volume() * ElementBytes(dtype));
  for (size_t t = 0; t < bound.layout.tensors.size(); ++t) {
    for (const Piece& piece : bound.layout.tensors[t].pieces) {
      if (piece.param != index || Intersect(piece.logical, strip) != strip) continue;
      const StoredTensor& stored = bound.stored[t];
      Move move{
          &stored,
          0,
          {strip.extent, {}, RowMajorStrides(strip.extent), stored.dtype, dtype, stored.big_endian},
          bytes.data()};
      for (size_t d = 0; d < strip.lo.size(); ++d) {
        const int64_t stride = stored.strides[piece.axes[d]];
        move.copy.source_strides.push_back(stride);
        move.start += (piece.stored_lo[piece.axes[d]] + strip.lo[d] - piece.logical.lo[d]) * stride;
      }
      Gatherer gatherer(256 << 10);
      NXDKIT_TRY(gatherer.Run({move}));
      return bytes;
    }
  }
  return std::vector<std::byte>();
}

// What rank `rank` stores where head `head` belongs.
Result<std::vector<std::byte>> StoredStrip(const BoundArtifact& actual, const LogicalTensor& param,
                                           uint32_t index, int64_t head, const Finding& finding) {
  BoundLayout own;
  own.layout.files = actual.bound.layout.files;
  for (size_t t = 0; t < actual.bound.layout.tensors.size(); ++t) {
    const TensorLayout& tensor = actual.bound.layout.tensors[t];
    if (tensor.name != finding.tensor ||
        actual.bound.layout.files[tensor.file].path != finding.file)
      continue;
    own.layout.tensors.push_back(tensor);
    own.stored.push_back(actual.bound.stored[t]);
  }
  if (own.stored.empty()) return std::vector<std::byte>();
  return ReadStrip(own, param, index, head, own.stored.front().dtype);
}

// Queries in natural order over tiled key heads: what the reference converter writes for trn2.
bool IsReferenceTrn2(const BoundArtifact& actual, const Finding& finding, int64_t stored_head) {
  const nxd::Geometry& geometry = actual.nxd_geometry;
  if (actual.artifact.kind != Kind::kNxd || geometry.kv_multiplier == 1 || !finding.rank)
    return false;
  const models::ModelConfig& config = actual.model->config;
  const auto assumed = nxd::HeadPlacement(config, geometry);
  if (!assumed.ok()) return false;
  const std::vector<int64_t>& slots = (*assumed)[*finding.rank].query;
  const int64_t per_rank = static_cast<int64_t>(slots.size());
  for (int64_t slot = 0; slot < per_rank; ++slot)
    if (slots[slot] == *finding.head) return stored_head == *finding.rank * per_rank + slot;
  return false;
}

Status Extend(const BoundArtifact& expected, const BoundArtifact& actual, Finding& finding) {
  const auto index = expected.model->Find(finding.param);
  if (!index || !finding.head) return OkStatus();
  const LogicalTensor& param = expected.params[*index];
  const Role role = expected.model->params[*index].role;
  NXDKIT_ASSIGN(const std::vector<std::byte> stored,
                StoredStrip(actual, param, *index, *finding.head, finding));
  if (stored.empty()) return OkStatus();
  const Dtype dtype = [&] {
    for (size_t t = 0; t < actual.bound.stored.size(); ++t)
      if (actual.bound.layout.tensors[t].name == finding.tensor)
        return actual.bound.stored[t].dtype;
    return Dtype::kBF16;
  }();
  const int64_t heads = param.shape[param.head_dim] / param.head_rows;
  for (int64_t head = 0; head < heads; ++head) {
    NXDKIT_ASSIGN(const std::vector<std::byte> strip,
                  ReadStrip(expected.bound, param, *index, head, dtype));
    if (strip != stored) continue;
    if (head == *finding.head) return OkStatus();  // the right head, with wrong elements
    const char* what = role == Role::kKey ? "key" : role == Role::kValue ? "value" : "query";
    finding.message +=
        fmt::format("; {} head {} is where head {} belongs", what, head, *finding.head);
    if ((role == Role::kQuery || role == Role::kOutput) && IsReferenceTrn2(actual, finding, head))
      finding.message +=
          ": the query heads are in natural order while the key heads are tiled over the ranks, so "
          "they meet other groups' keys; "
          "NxD's checkpoint_converter.py writes such sets for --hw_backend trn2 with a "
          "kv_size_multiplier above 1";
    return OkStatus();
  }
  return OkStatus();
}

}  // namespace

Status ExplainHeads(const BoundArtifact& expected, const BoundArtifact& actual,
                    std::vector<Finding>& findings) {
  if (!expected.model || !actual.model) return OkStatus();
  for (Finding& finding : findings) {
    if (!finding.head) continue;
    return Extend(expected, actual, finding);
  }
  return OkStatus();
}

}  // namespace nxdkit::ops
