#include "formats/ops/read/reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/artifact/canonical.h"
#include "formats/kinds/bind.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/decide.h"
#include "formats/ops/convert/explain.h"
#include "formats/ops/read/rank_files.h"
#include "formats/ops/read/seen_shape.h"
#include "formats/ops/read/source_files.h"
#include "formats/training/keep_params.h"
#include "lib/base/errors.h"
#include "lib/base/parallel.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kStagingBytes = uint64_t{4} << 20;
// A slice larger than this is read by several threads, in chunks: one does not keep a disk busy,
// and copying from the page cache scales with the cores. More than four gained nothing.
constexpr uint64_t kAloneBytes = uint64_t{32} << 20;
constexpr uint64_t kChunkBytes = uint64_t{8} << 20;
constexpr int kMostThreads = 4;

int ReadingThreads() {
  return std::clamp(static_cast<int>(AllowedProcessors().size()), 1, kMostThreads);
}

bool HoldsMoreThanWeights(const BoundArtifact& source) {
  return source.optimizer || !source.run.empty() || !source.run_objects.empty();
}

// The source without the parameters that no weight file of the output has.
std::shared_ptr<const BoundArtifact> WeightsFor(std::shared_ptr<const BoundArtifact> source,
                                                const Kind& kind) {
  const bool leaves_carried = !kind.keeps_carried && !source->carried.empty();
  if (!leaves_carried && !HoldsMoreThanWeights(*source)) return source;
  BoundArtifact weights = *source;
  if (leaves_carried) LeaveCarried(weights);
  LeaveState(weights, "the weights of a rank are read");
  return std::make_shared<const BoundArtifact>(std::move(weights));
}

// Convert opens an adapter again if the output has one A for several modules.
Status CheckSharing(const BoundArtifact& source, const Output& output) {
  if (!source.lora) return OkStatus();
  const std::optional<nxd::LoraSharing> shares = output.Sharing();
  const nxd::LoraSharing& own = source.lora->sharing;
  if (!shares || ((own.qkv || !shares->qkv) && (own.gate_up || !shares->gate_up)))
    return OkStatus();
  return Unsupported("modules of the layout share one A, but the adapter's do not")
      .in(source.artifact.path)
      .hint("convert the adapter, and read the result");
}

// Elements smaller than a byte are never cut or moved: the tensor must be stored as it is read.
Status CheckSubByte(const TensorPlan& plan, const BoundLayout& bound, const OutputTensor& output,
                    const Slice& slice) {
  const bool is_copy = plan.copies.size() == 1 && plan.fills.empty();
  const CopyOp whole = is_copy ? plan.copies.front() : CopyOp();
  if (is_copy && slice == WholeSlice(output.shape) && whole.box == WholeBox(output.shape) &&
      whole.start == 0 && whole.strides == RowMajorStrides(output.shape) &&
      bound.stored[whole.source].dtype == output.dtype)
    return OkStatus();
  return Unsupported("elements of dtype {} are smaller than a byte and cannot be sliced",
                     Name(output.dtype));
}

std::vector<uint32_t> SourcesOf(const TensorPlan& plan, const Shape& laid_out, const Shape& seen,
                                const Slice& slice) {
  std::vector<uint32_t> sources;
  const std::vector<LaidOutPart> parts =
      LaidOutParts(laid_out, seen, slice, RowMajorStrides(slice.extent()));
  for (const CopyOp& op : plan.copies)
    if (std::ranges::any_of(parts, [&](const LaidOutPart& part) { return Meets(op, part.slice); }))
      sources.push_back(op.source);
  return sources;
}

}  // namespace

struct TensorReader::State {
  std::shared_ptr<const BoundArtifact> source;
  Layout layout;
  std::vector<OutputTensor> outputs;  // of layout.tensors, in their shapes in the file
  Plan plan;
  SourceFiles files;
};

Result<TensorReader> TensorReader::Make(State state, const TensorReader* opened) {
  const SourceFiles* const before = opened ? &opened->state_->files : nullptr;
  NXDKIT_TRY(SourceFiles::LookAtAll(*state.source, before).To(state.files));
  return TensorReader(std::make_shared<const State>(std::move(state)));
}

Result<TensorReader> TensorReader::OfParameters(std::shared_ptr<const BoundArtifact> source) {
  NXDKIT_ASSIGN(CanonicalPlan plan, PlanCanonical(*source).in(source->artifact.path));
  return Make({std::move(source),
               std::move(plan.layout),
               std::move(plan.outputs),
               std::move(plan.plan),
               {}},
              nullptr);
}

Result<TensorReader> TensorReader::OfRank(std::shared_ptr<const BoundArtifact> given,
                                          const Kind& kind, const OutputOptions& options,
                                          RankPlace rank, uint64_t max_memory,
                                          const TensorReader* opened) {
  std::shared_ptr<const BoundArtifact> source = WeightsFor(std::move(given), kind);
  NXDKIT_ASSIGN(const std::unique_ptr<Output> output, DecideOutput(*source, kind, options));
  NXDKIT_TRY(CheckSharing(*source, *output));
  NXDKIT_ASSIGN(OutputPlan planned, PlanOutput(*source, *output, "output", max_memory));
  NXDKIT_ASSIGN(RankTensors tensors, TensorsOfPlace(std::move(planned), rank));
  NXDKIT_ASSIGN(Plan plan,
                BuildPlan(source->params, source->bound, tensors.layout).in(source->artifact.path));
  return Make({std::move(source),
               std::move(tensors.layout),
               std::move(tensors.outputs),
               std::move(plan),
               {}},
              opened);
}

Result<TensorReader> TensorReader::OfEngine(std::shared_ptr<const BoundArtifact> source,
                                            const RankLayout& layout, int rank, Dtype dtype,
                                            const TensorReader* opened) {
  Layout whole;
  whole.files.push_back({fmt::format("rank {}", rank)});
  NXDKIT_TRY(TensorsOfRank(*source, layout, rank).To(whole.tensors));
  NXDKIT_ASSIGN(Plan plan,
                BuildPlan(source->params, source->bound, whole).in(source->artifact.path));
  std::vector<OutputTensor> outputs;
  for (TensorLayout& tensor : whole.tensors) {
    tensor.file = 0;
    outputs.push_back({tensor.name, tensor.dtype.value_or(dtype), tensor.shape});
  }
  return Make({std::move(source), std::move(whole), std::move(outputs), std::move(plan), {}},
              opened);
}

const std::vector<OutputTensor>& TensorReader::tensors() const { return state_->outputs; }
const BoundArtifact& TensorReader::source() const { return *state_->source; }

std::string TensorReader::Explain(size_t tensor) const {
  const TensorLayout& layout = state_->layout.tensors[tensor];
  return ExplainTensor(*state_->source, layout, state_->outputs[tensor],
                       state_->plan.tensors[tensor],
                       WhereText(state_->layout.files[layout.file], ""));
}

// `to` is the place of the slice's first element, and `strides` are those of the bytes around it.
Status TensorReader::ReadChunk(size_t tensor, const Slice& slice, const Shape& strides,
                               std::byte* to) const {
  const OutputTensor& output = state_->outputs[tensor];
  std::vector<Move> moves;
  for (const LaidOutPart& part :
       LaidOutParts(state_->layout.tensors[tensor].shape, output.shape, slice, strides))
    AddSliceMoves(state_->plan.tensors[tensor], state_->source->bound, output.dtype, part.slice,
                  part.strides, to + part.at * ElementBytes(output.dtype), moves);
  Gatherer gatherer(kStagingBytes);
  return gatherer.Run(std::move(moves));
}

Status TensorReader::ReadBytes(size_t tensor, const Slice& slice, std::span<std::byte> to) const {
  const OutputTensor& output = state_->outputs[tensor];
  const TensorPlan& plan = state_->plan.tensors[tensor];
  const BoundLayout& bound = state_->source->bound;
  const int64_t width = ElementBytes(output.dtype);
  if (width == 0) {
    const StoredTensor& stored = bound.stored[plan.copies.front().source];
    return stored.storage->ReadAt(stored.offset, to);
  }
  const Shape extent = slice.extent();
  const Shape strides = RowMajorStrides(extent);
  const std::vector<ElementRange> chunks =
      ChunkRanges(extent, width, to.size() > kAloneBytes ? kChunkBytes : kAloneBytes);
  return ParallelFor(chunks.size(), chunks.size() > 1 ? ReadingThreads() : 1, [&](size_t i) {
    const Box box = RangeBoxes(extent, chunks[i].first, chunks[i].end).front();
    return ReadChunk(tensor, PartOf(slice, box), strides, to.data() + chunks[i].first * width);
  });
}

Status TensorReader::Read(size_t tensor, const Slice& slice, std::span<std::byte> to) const {
  if (tensor >= state_->outputs.size())
    return BadUsage("tensor {} of {}", tensor, state_->outputs.size());
  const OutputTensor& output = state_->outputs[tensor];
  const TensorPlan& plan = state_->plan.tensors[tensor];
  const BoundLayout& bound = state_->source->bound;
  NXDKIT_TRY(CheckSlice(slice, output.shape).on(output.name));
  const bool is_sub_byte = ElementBytes(output.dtype) == 0;
  NXDKIT_TRY(
      (is_sub_byte ? CheckSubByte(plan, bound, output, slice) : CheckElements(plan, bound, output))
          .on(output.name));
  NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(output.dtype, slice.extent()).on(output.name));
  if (to.size() != bytes)
    return BadUsage("the buffer has {} bytes, the slice {}", to.size(), bytes).on(output.name);
  if (bytes == 0) return OkStatus();
  const std::vector<uint32_t> files = state_->files.FilesOf(
      *state_->source, SourcesOf(plan, state_->layout.tensors[tensor].shape, output.shape, slice));
  Status read = ReadBytes(tensor, slice, to).on(output.name);
  // Checked afterwards: a write during the read is noticed too, and is the cause of any other
  // error.
  NXDKIT_TRY(state_->files.CheckUnchanged(files).on(output.name));
  return read;
}

}  // namespace nxdkit::ops
