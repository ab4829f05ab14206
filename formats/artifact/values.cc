#include "formats/artifact/values.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "formats/artifact/value_kernels.h"
#include "lib/sinks/compare_sink.h"
#include "lib/tensor/tally.h"

namespace nxdkit::artifact {
namespace {

// Calls `visit` with first element and size of every contiguous run of a box of a shape, until it
// returns false.
void VisitRuns(const Shape& shape, const Box& box,
               const std::function<bool(int64_t, int64_t)>& visit) {
  const Shape strides = RowMajorStrides(shape);
  size_t outer = shape.size();
  int64_t run = 1;
  for (bool whole = true; whole && outer > 0;) {
    --outer;
    run *= box.extent[outer];
    whole = box.extent[outer] == shape[outer];
  }
  Shape at = box.lo;
  for (;;) {
    int64_t element = 0;
    for (size_t d = 0; d < shape.size(); ++d) element += at[d] * strides[d];
    if (!visit(element, run)) return;
    size_t d = outer;
    while (d > 0 && ++at[d - 1] == box.lo[d - 1] + box.extent[d - 1]) {
      at[d - 1] = box.lo[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

// The first element of a run that is a NaN or infinite; there is one.
int64_t FirstNotFinite(Dtype dtype, std::span<const std::byte> run) {
  const auto size = static_cast<size_t>(ElementBytes(dtype));
  size_t at = 0;
  while (AllFinite(dtype, run.subspan(at, size))) at += size;
  return static_cast<int64_t>(at / size);
}

}  // namespace

bool HasValues(Dtype dtype) {
  constexpr Dtype kOfAByte[] = {Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E8M0, Dtype::kF8E4M3Fnuz,
                                Dtype::kF8E5M2Fnuz};
  return std::ranges::count(kOfAByte, dtype) > 0 || (Info(dtype).floating && HasTally(dtype));
}

ValueScan::ValueScan(const Layout& layout, const std::vector<OutputTensor>& tensors)
    : layout_(layout), tensors_(tensors), zeros_(tensors.size()), seen_(tensors.size()) {
  size_t pieces = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    first_piece_.push_back(pieces);
    const size_t count = layout.tensors[t].pieces.size();
    pieces += count;
    zeros_[t] = HasValues(tensors[t].dtype) ? static_cast<uint32_t>(count) : 0;
  }
  nonzero_ = std::vector<std::atomic<bool>>(pieces);
}

uint64_t ValueScan::BytesOf(uint32_t tensor) const {
  return static_cast<uint64_t>(WholeBox(tensors_[tensor].shape).Volume()) *
         static_cast<uint64_t>(ElementBytes(tensors_[tensor].dtype));
}

// `run` must be inside the piece, and begins with element `element` of its tensor.
void ValueScan::LookAt(PieceNumber piece, int64_t element, std::span<const std::byte> run,
                       bool finite) {
  const Dtype dtype = tensors_[piece.first].dtype;
  std::atomic<bool>& nonzero = NonZero(piece);
  if (!nonzero && !AllZero(dtype, run) && !nonzero.exchange(true)) --zeros_[piece.first];
  if (finite || AllFinite(dtype, run)) return;
  const Tally tally =
      TallyElements(dtype, run.data(), static_cast<int64_t>(run.size()) / ElementBytes(dtype));
  const int64_t at = FirstNotFinite(dtype, run);
  const std::lock_guard lock(mutex_);
  const auto [it, added] = bad_.try_emplace(piece);
  Bad& bad = it->second;
  bad.nan += tally.nan;
  bad.inf += tally.inf;
  if (!added && bad.first < element + at) return;
  bad.first = element + at;
  bad.found = ValueText(dtype, run.data() + at * ElementBytes(dtype));
}

void ValueScan::Add(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  const Dtype dtype = tensors_[tensor].dtype;
  if (!HasValues(dtype)) return;
  seen_[tensor] += bytes.size();
  const bool finite = AllFinite(dtype, bytes);
  if (finite && zeros_[tensor] == 0) return;
  const TensorLayout& layout = layout_.tensors[tensor];
  const int64_t size = ElementBytes(dtype);
  const int64_t first = static_cast<int64_t>(offset) / size;
  const int64_t end = first + static_cast<int64_t>(bytes.size()) / size;
  for (const Box& range : RangeBoxes(layout.shape, first, end))
    for (uint32_t p = 0; p < layout.pieces.size(); ++p) {
      const PieceNumber piece(tensor, p);
      const std::optional<Box> box =
          Intersect(StoredBox(layout.pieces[p], layout.shape.size()), range);
      if (!box || (finite && NonZero(piece))) continue;
      VisitRuns(layout.shape, *box, [&](int64_t element, int64_t count) {
        const auto at = static_cast<size_t>((element - first) * size);
        LookAt(piece, element, bytes.subspan(at, static_cast<size_t>(count * size)), finite);
        return !finite || !NonZero(piece);
      });
    }
}

std::vector<ParamValues> ValueScan::Params() const {
  std::map<uint32_t, ParamValues> params;
  std::set<uint32_t> nonzero;
  std::set<std::pair<uint32_t, std::pair<Shape, Shape>>> counted;  // boxes, of copies one
  for (uint32_t t = 0; t < tensors_.size(); ++t)
    for (uint32_t p = 0; p < layout_.tensors[t].pieces.size(); ++p) {
      const Piece& piece = layout_.tensors[t].pieces[p];
      if (piece.logical.Volume() == 0) continue;
      if (nonzero_[first_piece_[t] + p] || !HasValues(tensors_[t].dtype) || !Saw(t))
        nonzero.insert(piece.param);
      const auto bad = bad_.find({t, p});
      const int64_t first = bad == bad_.end() ? 0 : bad->second.first;
      const auto [it, added] = params.try_emplace(piece.param, ParamValues());
      ParamValues& values = it->second;
      if (added) values.param = piece.param;
      if (added) values.tensor = t;
      if (bad == bad_.end()) continue;
      if (values.found.empty()) {
        values.tensor = t;
        values.element = first;
        values.found = bad->second.found;
      }
      if (!counted.insert({piece.param, {piece.logical.lo, piece.logical.extent}}).second) continue;
      values.nan += bad->second.nan;
      values.inf += bad->second.inf;
    }
  std::vector<ParamValues> out;
  for (auto& [param, values] : params) {
    values.zero = !nonzero.contains(param);
    if (values.zero || values.nan + values.inf > 0) out.push_back(std::move(values));
  }
  return out;
}

bool MayNotBeZero(const BoundArtifact& source, uint32_t param) {
  using models::Role;
  if (!source.model || source.lora || param >= source.model->params.size()) return false;
  const models::Param& known = source.model->params[param];
  if (known.name != source.params[param].name) return false;  // numbered by another artifact
  if (known.role == Role::kScore) return false;
  if (known.shape.size() >= 2) return true;
  const bool norm = known.role == Role::kFinalNorm || known.role == Role::kQueryNorm ||
                    known.role == Role::kKeyNorm || known.role == Role::kReplicated;
  return norm && known.name.ends_with(".weight");
}

std::string NotFiniteText(const ParamValues& values) {
  const auto part = [](uint64_t count, const char* what) {
    return fmt::format("{} element{} {}", count, count == 1 ? " is" : "s are", what);
  };
  if (values.inf == 0) return part(values.nan, "NaN");
  if (values.nan == 0) return part(values.inf, "infinite");
  return part(values.nan, "NaN") + " and " + part(values.inf, "infinite");
}

}  // namespace nxdkit::artifact
