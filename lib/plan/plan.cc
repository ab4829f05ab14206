#include "lib/plan/plan.h"

#include <algorithm>
#include <iterator>
#include <tuple>

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

using Place = PrimaryPlaces::Place;

BoxTree TreeOf(const std::vector<Place>& places) {
  std::vector<const Box*> boxes;
  boxes.reserve(places.size());
  for (const Place& place : places) boxes.push_back(&place.logical);
  return BoxTree(std::move(boxes));
}

// All pieces of each parameter, in order; of copies, only the first.
std::vector<std::vector<Place>> PiecesByParam(size_t params, const Layout& layout) {
  std::vector<std::vector<Place>> pieces(params);
  for (uint32_t t = 0; t < layout.tensors.size(); ++t)
    for (uint32_t p = 0; p < layout.tensors[t].pieces.size(); ++p) {
      const Piece& piece = layout.tensors[t].pieces[p];
      pieces[piece.param].push_back({t, p, piece.logical});
    }
  const auto at = [](const Place& a) { return std::tie(a.logical.lo, a.logical.extent); };
  const auto order = [](const Place& a) { return std::tie(a.tensor, a.piece); };
  for (std::vector<Place>& of : pieces) {
    std::ranges::stable_sort(of, {}, at);
    const auto same = [&](const Place& a, const Place& b) { return at(a) == at(b); };
    of.erase(std::unique(of.begin(), of.end(), same), of.end());
    std::ranges::sort(of, {}, order);
  }
  return pieces;
}

constexpr uint64_t kStepsOfABox = 16;  // to make one, in visits of tree nodes

// The parts of `box` outside all earlier pieces; incomplete once `work` is used up.
std::vector<Box> Uncovered(const Box& box, const std::vector<Place>& pieces,
                           std::span<const uint32_t> earlier, BoxWork& work) {
  std::vector<Box> rest{box};
  for (const uint32_t i : earlier) {
    if (!work.Take(kStepsOfABox * rest.size())) break;
    std::vector<Box> next;
    for (const Box& part : rest) {
      std::vector<Box> left = Subtract(part, pieces[i].logical);
      std::ranges::move(left, std::back_inserter(next));
    }
    rest = std::move(next);
    if (rest.empty()) break;
  }
  return rest;
}

// The number of elements of `box` in `places`, which are disjoint.
int64_t CoveredOf(const Box& box, const std::vector<Place>& places,
                  std::span<const uint32_t> meeting) {
  int64_t covered = 0;
  for (const uint32_t i : meeting)
    if (const auto part = Intersect(box, places[i].logical)) covered += part->Volume();
  return covered;
}

// A part of `box` that no place holds; there is one. A box with many places is halved until few
// are left.
Box GapOf(Box box, const std::vector<Place>& places, const BoxTree& tree) {
  constexpr size_t kFew = 16;
  for (;;) {
    const std::vector<uint32_t> meeting = tree.Meeting(box);
    BoxWork work(meeting.size());
    if (meeting.size() <= kFew || box.Volume() == 1)
      return Uncovered(box, places, meeting, work).front();
    const auto widest =
        static_cast<size_t>(std::ranges::max_element(box.extent) - box.extent.begin());
    Box half = box;
    half.extent[widest] /= 2;
    if (CoveredOf(half, places, tree.Meeting(half)) == half.Volume()) {
      half.lo[widest] += half.extent[widest];
      half.extent[widest] = box.extent[widest] - half.extent[widest];
    }
    box = std::move(half);
  }
}

int64_t CountIn(const std::vector<Place>& places) {
  int64_t count = 0;
  for (const Place& place : places) count += place.logical.Volume();
  return count;
}

Error TooMuchOverlap(const LogicalTensor& param, size_t pieces) {
  return Unsupported("its {} pieces overlap each other in too many ways", pieces)
      .on(param.name)
      .hint("programs that cut a tensor store each element once, or make whole copies of a part");
}

// The part of each piece that no earlier one holds.
Result<std::vector<Place>> FirstPlaces(const std::vector<Place>& pieces,
                                       const LogicalTensor& param) {
  const int64_t volume = WholeBox(param.shape).Volume();
  const BoxTree tree = TreeOf(pieces);
  BoxWork work(pieces.size());
  std::vector<Place> places;
  int64_t covered = 0;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (covered == volume && !places.empty()) break;  // only copies are left
    std::vector<uint32_t> earlier = tree.Meeting(pieces[i].logical, &work);
    earlier.erase(std::ranges::lower_bound(earlier, i), earlier.end());
    for (Box& part : Uncovered(pieces[i].logical, pieces, earlier, work)) {
      covered += part.Volume();
      places.push_back({pieces[i].tensor, pieces[i].piece, std::move(part)});
    }
    if (work.is_used_up()) return TooMuchOverlap(param, pieces.size());
  }
  return places;
}

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

size_t CountPieces(const Layout& layout) {
  size_t count = 0;
  for (const TensorLayout& tensor : layout.tensors) count += tensor.pieces.size();
  return count;
}

constexpr uint64_t kStepsOfACopy = 128;  // eight for each piece, and thousands besides

// With `self` the output is the source itself: pieces already at their primary place are left out,
// and a file may make any number of pieces meet any number of places.
Status AddCopies(Plan& plan, const BoundLayout& source, const PrimaryPlaces& places,
                 const std::vector<LogicalTensor>& params, const Layout& output, uint32_t tensor,
                 uint32_t piece_index, BoxWork* self) {
  const Piece& piece = output.tensors[tensor].pieces[piece_index];
  for (const uint32_t i : places.Meeting(piece.param, piece.logical)) {
    if (self && !self->Take(kStepsOfACopy))
      return TooMuchOverlap(params[piece.param], places.of(piece.param).size());
    const PrimaryPlaces::Place& place = places.of(piece.param)[i];
    if (self && tensor == place.tensor && place.piece == piece_index) continue;
    if (const std::optional<Box> part = Intersect(place.logical, piece.logical))
      plan.tensors[tensor].copies.push_back(
          MakeCopy(*part, source, place, output.tensors[tensor], piece_index));
  }
  return OkStatus();
}

Result<Plan> MakePlan(const std::vector<LogicalTensor>& params, const BoundLayout& source,
                      const PrimaryPlaces& places, const Layout& output, BoxWork* self = nullptr) {
  Plan plan;
  plan.tensors.resize(output.tensors.size());
  for (uint32_t t = 0; t < output.tensors.size(); ++t) {
    plan.tensors[t].fills = output.tensors[t].fills;
    for (uint32_t p = 0; p < output.tensors[t].pieces.size(); ++p)
      NXDKIT_TRY(AddCopies(plan, source, places, params, output, t, p, self));
  }
  return plan;
}

}  // namespace

Result<PrimaryPlaces> PrimaryPlaces::Find(const std::vector<LogicalTensor>& params,
                                          const Layout& layout, bool allow_missing) {
  PrimaryPlaces out;
  for (const std::vector<Place>& pieces : PiecesByParam(params.size(), layout)) {
    const LogicalTensor& param = params[out.places_.size()];
    const Box whole = WholeBox(param.shape);
    NXDKIT_ASSIGN(std::vector<Place> first, FirstPlaces(pieces, param));
    const std::vector<Place>& places = out.places_.emplace_back(std::move(first));
    const BoxTree& tree = out.trees_.emplace_back(TreeOf(places));
    if (CountIn(places) == whole.Volume() || (places.empty() && allow_missing)) continue;
    if (places.empty()) return Corrupt("the parameter is stored nowhere").on(param.name);
    return Corrupt("elements {} of {} are stored nowhere", BoxText(GapOf(whole, places, tree)),
                   ShapeText(param.shape))
        .on(param.name);
  }
  return out;
}

Result<Plan> BuildPlan(const std::vector<LogicalTensor>& params, const BoundLayout& source,
                       const Layout& output) {
  NXDKIT_TRY(CheckLayout(params, source.layout));
  NXDKIT_TRY(CheckLayout(params, output));
  NXDKIT_TRY(CheckBinding(source));
  NXDKIT_ASSIGN(const PrimaryPlaces places, PrimaryPlaces::Find(params, source.layout));
  return MakePlan(params, source, places, output);
}

Result<Plan> BuildSelfPlan(const std::vector<LogicalTensor>& params, const BoundLayout& bound) {
  NXDKIT_TRY(CheckLayout(params, bound.layout));
  NXDKIT_TRY(CheckBinding(bound));
  NXDKIT_ASSIGN(const PrimaryPlaces places, PrimaryPlaces::Find(params, bound.layout, true));
  BoxWork work(CountPieces(bound.layout));
  return MakePlan(params, bound, places, bound.layout, &work);
}

}  // namespace nxdkit
