#include "lib/plan/plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit {

CopyOp CopyWhole(const StoredTensor& stored, uint32_t index) {
  return {index, 0, WholeBox(stored.shape), 0, stored.strides};
}

void BoundLayout::Add(TensorLayout tensor, StoredTensor from) {
  layout.tensors.push_back(std::move(tensor));
  stored.push_back(std::move(from));
}

Status CheckBinding(const BoundLayout& bound) {
  NXDKIT_CHECK(bound.stored.size() == bound.layout.tensors.size());
  for (size_t i = 0; i < bound.stored.size(); ++i) {
    const StoredTensor& stored = bound.stored[i];
    const TensorLayout& tensor = bound.layout.tensors[i];
    if (stored.shape != tensor.shape)
      return Corrupt("shape {} found, {} expected", ShapeText(stored.shape),
                     ShapeText(tensor.shape))
          .in(stored.storage->path())
          .on(stored.name);
    if (tensor.dtype && stored.dtype != *tensor.dtype)
      return Corrupt("dtype {} found, {} expected", Name(stored.dtype), Name(*tensor.dtype))
          .in(stored.storage->path())
          .on(stored.name);
  }
  return OkStatus();
}

namespace {

// The parts of `box` that no place of `taken` holds yet.
std::vector<Box> Uncovered(const Box& box, const std::vector<PrimaryPlaces::Place>& taken) {
  std::vector<Box> rest{box};
  for (const PrimaryPlaces::Place& place : taken) {
    // The common case by far, slices of other ranks: nothing to allocate for.
    if (std::ranges::none_of(rest, [&](const Box& part) { return Meet(part, place.logical); }))
      continue;
    std::vector<Box> next;
    for (const Box& part : rest) {
      std::vector<Box> pieces = Subtract(part, place.logical);
      next.insert(next.end(), std::make_move_iterator(pieces.begin()),
                  std::make_move_iterator(pieces.end()));
    }
    rest = std::move(next);
    if (rest.empty()) break;
  }
  return rest;
}

}  // namespace

Result<PrimaryPlaces> PrimaryPlaces::Find(const std::vector<LogicalTensor>& params,
                                          const Layout& layout, bool allow_missing) {
  PrimaryPlaces out;
  out.places_.resize(params.size());
  std::vector<int64_t> covered(params.size(), 0);
  for (uint32_t t = 0; t < layout.tensors.size(); ++t) {
    const TensorLayout& tensor = layout.tensors[t];
    for (uint32_t p = 0; p < tensor.pieces.size(); ++p) {
      const Piece& piece = tensor.pieces[p];
      std::vector<Place>& places = out.places_[piece.param];
      // A fully covered parameter has only replicas left: the common case of norms at TP64.
      if (covered[piece.param] == WholeBox(params[piece.param].shape).Volume() && !places.empty())
        continue;
      for (Box& part : Uncovered(piece.logical, places)) {
        covered[piece.param] += part.Volume();
        places.push_back({t, p, std::move(part)});
      }
    }
  }
  for (uint32_t i = 0; i < params.size(); ++i) {
    if (out.places_[i].empty() && allow_missing) continue;
    const Box whole = WholeBox(params[i].shape);
    if (covered[i] == whole.Volume()) continue;
    const std::vector<Box> gaps = Uncovered(whole, out.places_[i]);
    return Error(Errc::kCorrupt,
                 out.places_[i].empty()
                     ? "the parameter is stored nowhere"
                     : fmt::format("elements {} of {} are stored nowhere", BoxText(gaps.front()),
                                   ShapeText(params[i].shape)))
        .on(params[i].name);
  }
  return out;
}

namespace {

// Copies the logical box `part` from where `from` stores it to where `to` stores it.
CopyOp MakeCopy(const Box& part, const BoundLayout& source, const PrimaryPlaces::Place& from,
                const TensorLayout& output, uint32_t to_piece) {
  const Piece& to = output.pieces[to_piece];
  const Piece& piece = source.layout.tensors[from.tensor].pieces[from.piece];
  const StoredTensor& stored = source.stored[from.tensor];
  CopyOp op{from.tensor,
            to_piece,
            {to.stored_lo, Shape(output.shape.size(), 1)},
            0,
            Shape(output.shape.size(), 0)};
  for (size_t d = 0; d < stored.strides.size(); ++d)
    op.start += piece.stored_lo[d] * stored.strides[d];
  for (size_t d = 0; d < part.lo.size(); ++d) {
    const int64_t stride = stored.strides[piece.axes[d]];
    op.box.lo[to.axes[d]] += part.lo[d] - to.logical.lo[d];
    op.box.extent[to.axes[d]] = part.extent[d];
    op.start += (part.lo[d] - piece.logical.lo[d]) * stride;
    op.strides[to.axes[d]] = stride;
  }
  return op;
}

// `self`: the output is the source itself; what already lies at its primary place is left out.
void AddCopies(TensorPlan& plan, const BoundLayout& source, const PrimaryPlaces& places,
               const TensorLayout& output, uint32_t piece_index,
               std::optional<uint32_t> self = std::nullopt) {
  const Piece& piece = output.pieces[piece_index];
  for (const PrimaryPlaces::Place& place : places.of(piece.param)) {
    if (self == place.tensor && place.piece == piece_index) continue;
    const std::optional<Box> part = Intersect(place.logical, piece.logical);
    if (part) plan.copies.push_back(MakeCopy(*part, source, place, output, piece_index));
  }
}

}  // namespace

Result<Plan> BuildPlan(const std::vector<LogicalTensor>& params, const BoundLayout& source,
                       const Layout& output) {
  NXDKIT_TRY(CheckLayout(params, source.layout));
  NXDKIT_TRY(CheckLayout(params, output));
  NXDKIT_TRY(CheckBinding(source));
  NXDKIT_ASSIGN(const PrimaryPlaces places, PrimaryPlaces::Find(params, source.layout));
  Plan plan;
  plan.tensors.resize(output.tensors.size());
  for (size_t t = 0; t < output.tensors.size(); ++t) {
    plan.tensors[t].fills = output.tensors[t].fills;
    for (uint32_t p = 0; p < output.tensors[t].pieces.size(); ++p)
      AddCopies(plan.tensors[t], source, places, output.tensors[t], p);
  }
  return plan;
}

Result<Plan> BuildSelfPlan(const std::vector<LogicalTensor>& params, const BoundLayout& bound) {
  NXDKIT_TRY(CheckLayout(params, bound.layout));
  NXDKIT_TRY(CheckBinding(bound));
  NXDKIT_ASSIGN(const PrimaryPlaces places, PrimaryPlaces::Find(params, bound.layout, true));
  Plan plan;
  plan.tensors.resize(bound.layout.tensors.size());
  for (uint32_t t = 0; t < bound.layout.tensors.size(); ++t) {
    plan.tensors[t].fills = bound.layout.tensors[t].fills;
    for (uint32_t p = 0; p < bound.layout.tensors[t].pieces.size(); ++p)
      AddCopies(plan.tensors[t], bound, places, bound.layout.tensors[t], p, t);
  }
  return plan;
}

}  // namespace nxdkit
