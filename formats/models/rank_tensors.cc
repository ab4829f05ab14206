#include "formats/models/rank_tensors.h"

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::models {
namespace {

// Copies [from, from + count) along `dim` of the parameter to `at` in the tensor; does nothing for
// 0.
void AddPart(TensorLayout& tensor, const Model& model, uint32_t param, int dim, int64_t from,
             int64_t count, int64_t at) {
  if (count == 0) return;
  const auto d = static_cast<size_t>(dim);
  Box box = WholeBox(model.params[param].shape);
  box.lo[d] = from;
  box.extent[d] = count;
  Piece piece{param, std::move(box), Shape(tensor.shape.size(), 0), {}};
  piece.stored_lo[d] = at;
  for (size_t i = 0; i < tensor.shape.size(); ++i) piece.axes.push_back(static_cast<uint8_t>(i));
  tensor.pieces.push_back(std::move(piece));
}

// A rank's part of one parameter: runs of it, and of zeros.
struct Run {
  int64_t from = 0;  // kZeroHead: zeros
  int64_t count = 0;
};

// Adds an equal share of the units, with zeros for missing ones.
void AddShare(std::vector<Run>& runs, int64_t first, const Segment& segment, bool share,
              const RankPart& part) {
  if (share && segment.count < part.tp && part.tp % segment.count == 0) {
    const int64_t unit = part.rank / (part.tp / segment.count);
    runs.push_back({first + unit * segment.unit, segment.unit});
    return;
  }
  const int64_t each = (segment.count + part.tp - 1) / part.tp;
  const int64_t begin = std::min(part.rank * each, segment.count);
  const int64_t real = std::min(each, segment.count - begin);
  runs.push_back({first + begin * segment.unit, real * segment.unit});
  if (real < each) runs.push_back({kZeroHead, (each - real) * segment.unit});
}

// Adds the runs of a segment that begins at `first`.
void AddRuns(std::vector<Run>& runs, int64_t first, const Segment& segment, bool share,
             const RankPart& part) {
  if (!IsHead(segment.of)) return AddShare(runs, first, segment, share, part);
  const size_t before = runs.size();
  for (const int64_t head : segment.of == Unit::kKeyHead ? part.heads.kv : part.heads.query) {
    const int64_t from = head == kZeroHead ? kZeroHead : first + head * segment.unit;
    const bool follows = runs.size() > before && head != kZeroHead &&
                         runs.back().from != kZeroHead &&
                         runs.back().from + runs.back().count == from;
    if (follows)
      runs.back().count += segment.unit;
    else
      runs.push_back({from, segment.unit});
  }
}

constexpr size_t kEverySegment = SIZE_MAX;

std::vector<Run> RunsOf(const Model& model, const Param& param, size_t only, const RankPart& part) {
  const ParamCut& cut = model.cuts[param.cut];
  std::vector<Run> runs;
  if (cut.segments.empty()) {
    AddShare(runs, 0, {param.shape[static_cast<size_t>(param.axis)], 1, Unit::kElement}, false,
             part);
    return runs;
  }
  int64_t first = 0;
  for (size_t s = 0; s < cut.segments.size(); ++s) {
    const Segment& segment = cut.segments[s];
    if (only == kEverySegment || only == s) AddRuns(runs, first, segment, cut.share, part);
    first += segment.count * segment.unit;
  }
  return runs;
}

// The runs of several parameters, one after another along the dimension that is cut.
TensorLayout JoinRuns(const Model& model, std::string name,
                      const std::vector<std::pair<uint32_t, Run>>& runs, uint32_t like) {
  const Param& first = model.params[like];
  const int dim = first.CutDim();
  TensorLayout tensor = EmptyTensor(std::move(name), first.shape);
  int64_t& extent = tensor.shape[static_cast<size_t>(dim)];
  extent = 0;
  for (const auto& [param, run] : runs) extent += run.count;
  int64_t at = 0;
  for (const auto& [param, run] : runs) {
    if (run.from == kZeroHead)
      AddZeros(tensor, dim, at, run.count);
    else
      AddPart(tensor, model, param, dim, run.from, run.count, at);
    at += run.count;
  }
  return tensor;
}

}  // namespace

TensorLayout EmptyTensor(std::string name, Shape shape) {
  return {std::move(name), 0, std::move(shape), std::nullopt, {}, {}};
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::vector<uint32_t> FusedWith(const Model& model, uint32_t param) {
  const Param& first = model.params[param];
  std::vector<uint32_t> fused;
  for (uint32_t i = param; i < model.params.size() && model.params[i].layer == first.layer; ++i)
    if (RowOf(model.params[i].role).fused == RowOf(first.role).fused &&
        model.params[i].shape.size() == first.shape.size())
      fused.push_back(i);
  return fused;
}

std::string FusedName(const Param& param) {
  const size_t end = param.name.rfind('.');
  const size_t begin = param.name.rfind('.', end - 1) + 1;
  return std::string(param.name).replace(begin, end - begin, FusedModule(RowOf(param.role).fused));
}

TensorLayout WholeTensor(const Model& model, uint32_t param, std::string name) {
  return nxdkit::WholeTensor(std::move(name), 0, param, model.params[param].shape);
}

std::vector<TensorLayout> HfTensors(const Model& model, bool aliases) {
  std::vector<TensorLayout> tensors;
  for (uint32_t i = 0; i < model.params.size(); ++i)
    tensors.push_back(WholeTensor(model, i, model.params[i].name));
  if (!aliases) return tensors;
  for (const Alias& alias : model.config.aliases)
    if (const auto i = model.Find(alias.of)) tensors.push_back(WholeTensor(model, *i, alias.name));
  return tensors;
}

TensorLayout SliceTensor(const Model& model, uint32_t param, std::string name, int dim, int64_t tp,
                         int64_t rank) {
  TensorLayout tensor = EmptyTensor(std::move(name), model.params[param].shape);
  const int64_t extent = tensor.shape[dim];
  const int64_t part = (extent + tp - 1) / tp;
  const int64_t from = std::min(rank * part, extent);
  const int64_t real = std::min(part, extent - from);
  tensor.shape[dim] = part;
  AddPart(tensor, model, param, dim, from, real, 0);
  AddZeros(tensor, dim, real, part - real);
  return tensor;
}

TensorLayout PartTensor(const Model& model, const std::vector<uint32_t>& params, std::string name,
                        const RankPart& part) {
  if (model.params[params.front()].CutDim() == kWhole)
    return WholeTensor(model, params.front(), std::move(name));
  std::vector<std::pair<uint32_t, Run>> runs;
  for (const uint32_t param : params)
    for (const Run& run : RunsOf(model, model.params[param], kEverySegment, part))
      runs.emplace_back(param, run);
  return JoinRuns(model, std::move(name), runs, params.front());
}

TensorLayout SegmentTensor(const Model& model, uint32_t param, size_t segment, std::string name,
                           const RankPart& part) {
  std::vector<std::pair<uint32_t, Run>> runs;
  for (const Run& run : RunsOf(model, model.params[param], segment, part))
    runs.emplace_back(param, run);
  return JoinRuns(model, std::move(name), runs, param);
}

Status CheckEven(const Model& model, uint32_t param, int64_t tp) {
  const Param& one = model.params[param];
  if (one.CutDim() == kWhole) return OkStatus();
  const ParamCut& cut = model.cuts[one.cut];
  if (cut.segments.empty() && one.shape[static_cast<size_t>(one.axis)] % tp != 0)
    return Unsupported("{} cannot be split evenly over tp {}",
                       one.shape[static_cast<size_t>(one.axis)], tp)
        .on(one.name);
  for (const Segment& segment : cut.segments) {
    const bool shared = cut.share && segment.count < tp && tp % segment.count == 0;
    if (!IsHead(segment.of) && segment.count % tp != 0 && !shared)
      return Unsupported("{} parts of {} cannot be split evenly over tp {}", segment.count,
                         segment.unit, tp)
          .on(one.name);
  }
  return OkStatus();
}

}  // namespace nxdkit::models
