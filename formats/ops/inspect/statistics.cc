#include "formats/ops/inspect/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "formats/ops/inspect/statistics_kernels.h"
#include "lib/base/parallel.h"
#include "lib/plan/gather.h"
#include "lib/plan/layout.h"

namespace nxdkit::ops {
namespace {

// Of one read. Small enough to stay in the second cache until it has been tallied.
constexpr uint64_t kPieceBytes = 256 << 10;
constexpr uint64_t kStagingBytes = 1 << 20;
constexpr uint64_t kWorkerBytes = kPieceBytes + kStagingBytes;
// Pieces that one thread takes at once: enough to make taking cheap, few enough to share a large
// tensor; more of them where a tensor would have more runs than kMaxRuns.
constexpr int64_t kPiecesPerRun = 64;
constexpr int64_t kMaxRuns = 4096;

// The elements of a tensor in the order of their bytes: dimensions by falling stride, those without
// gaps between them merged, repeated ones (stride 0) taken out.
struct View {
  Shape extent;
  Shape strides;
  uint64_t repeats = 1;
};

View ViewOf(const StoredTensor& tensor) {
  View view;
  std::vector<size_t> order;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 1) continue;
    if (tensor.strides[d] == 0)
      view.repeats *= static_cast<uint64_t>(tensor.shape[d]);
    else
      order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
  for (const size_t d : order) {
    if (!view.extent.empty() && view.strides.back() == tensor.shape[d] * tensor.strides[d]) {
      view.extent.back() *= tensor.shape[d];
      view.strides.back() = tensor.strides[d];
      continue;
    }
    view.extent.push_back(tensor.shape[d]);
    view.strides.push_back(tensor.strides[d]);
  }
  return view;
}

int64_t Product(const Shape& shape, size_t from) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end(), int64_t{1},
                         std::multiplies<>());
}

// The view cut into boxes of at most `limit` elements: whole inner dimensions, `rows` indices of
// dimension `split`, one index of each outer dimension.
struct Cut {
  size_t split = 0;
  int64_t rows = 1;
  int64_t per_outer = 1;  // boxes for one index of the outer dimensions
  int64_t pieces = 1;
};

Cut CutOf(const View& view, int64_t limit) {
  Cut cut;
  cut.split = view.extent.size();
  int64_t inner = 1;
  while (cut.split > 0 && inner * view.extent[cut.split - 1] <= limit)
    inner *= view.extent[--cut.split];
  if (cut.split == 0) return cut;
  --cut.split;
  cut.rows = std::max<int64_t>(1, limit / inner);
  cut.per_outer = (view.extent[cut.split] + cut.rows - 1) / cut.rows;
  cut.pieces = cut.per_outer;
  for (size_t d = 0; d < cut.split; ++d) cut.pieces *= view.extent[d];
  return cut;
}

// The box of piece `index`.
Box PieceBox(const View& view, const Cut& cut, int64_t index) {
  Box box = WholeBox(view.extent);
  if (view.extent.empty() || cut.pieces == 1) return box;
  box.lo[cut.split] = index % cut.per_outer * cut.rows;
  box.extent[cut.split] = std::min(cut.rows, view.extent[cut.split] - box.lo[cut.split]);
  index /= cut.per_outer;
  for (size_t d = cut.split; d-- > 0;) {
    box.lo[d] = index % view.extent[d];
    box.extent[d] = 1;
    index /= view.extent[d];
  }
  return box;
}

// Consecutive pieces of one tensor.
struct Run {
  uint32_t tensor = 0;
  int64_t first = 0;
  int64_t last = 0;  // one past
  Tally tally;
};

struct Job {
  const StoredTensor* tensor = nullptr;
  View view;
  Cut cut;
};

// One thread's buffers.
class Worker {
 public:
  Worker() : piece_(kPieceBytes), gatherer_(kStagingBytes) {}

  Result<Tally> TallyPiece(const Job& job, int64_t index) {
    const StoredTensor& tensor = *job.tensor;
    const Box box = PieceBox(job.view, job.cut, index);
    const int64_t count = box.Volume();
    const auto bytes = static_cast<size_t>(count * ElementBytes(tensor.dtype));
    Move move{&tensor, 0, {}, piece_.data()};
    for (size_t d = 0; d < box.lo.size(); ++d) move.start += box.lo[d] * job.view.strides[d];
    const bool swaps = tensor.big_endian && Info(tensor.dtype).swap_bytes > 1;
    move.copy = {box.extent,   job.view.strides, RowMajorStrides(box.extent),
                 tensor.dtype, tensor.dtype,     false};
    NXDKIT_TRY(gatherer_.Run({move}));
    if (swaps) SwapBytes(std::span(piece_).first(bytes), Info(tensor.dtype).swap_bytes);
    return TallyElements(tensor.dtype, piece_.data(), count);
  }

 private:
  std::vector<std::byte> piece_;
  Gatherer gatherer_;
};

Status TallyRun(Worker& worker, const Job& job, const RunOptions& options, Run& run) {
  for (int64_t piece = run.first; piece < run.last; ++piece) {
    if (options.poll) NXDKIT_TRY(options.poll());
    NXDKIT_ASSIGN(const Tally tally, worker.TallyPiece(job, piece));
    run.tally.Merge(tally);
    if (options.on_bytes)
      options.on_bytes(tally.elements * static_cast<uint64_t>(ElementBytes(job.tensor->dtype)));
  }
  return OkStatus();
}

std::vector<Job> JobsOf(std::span<const StoredTensor* const> tensors) {
  std::vector<Job> jobs(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = *tensors[i];
    jobs[i].tensor = &tensor;
    if (!HasStatistics(tensor.dtype) || ElementCount(tensor.shape) == 0) continue;
    jobs[i].view = ViewOf(tensor);
    jobs[i].cut =
        CutOf(jobs[i].view, static_cast<int64_t>(kPieceBytes) / ElementBytes(tensor.dtype));
  }
  return jobs;
}

// The runs of all tensors, those of one tensor in order.
std::vector<Run> RunsOf(const std::vector<Job>& jobs) {
  std::vector<Run> runs;
  for (uint32_t i = 0; i < jobs.size(); ++i) {
    const StoredTensor& tensor = *jobs[i].tensor;
    if (!HasStatistics(tensor.dtype) || ElementCount(tensor.shape) == 0) continue;
    const int64_t pieces = jobs[i].cut.pieces;
    const int64_t step = std::max(kPiecesPerRun, pieces / kMaxRuns + 1);
    for (int64_t first = 0; first < pieces; first += step)
      runs.push_back({i, first, std::min(pieces, first + step), {}});
  }
  return runs;
}

uint64_t BytesToRead(const std::vector<Job>& jobs, const std::vector<Run>& runs) {
  uint64_t bytes = 0;
  for (const Run& run : runs)
    if (run.first == 0)
      bytes += static_cast<uint64_t>(Product(jobs[run.tensor].view.extent, 0) *
                                     ElementBytes(jobs[run.tensor].tensor->dtype));
  return bytes;
}

TensorStatistics Summary(const Tally& tally, uint64_t repeats) {
  TensorStatistics out;
  out.elements = tally.elements * repeats;
  out.nan = tally.nan * repeats;
  out.inf = tally.inf * repeats;
  out.zeros = tally.zeros * repeats;
  const uint64_t finite = tally.elements - tally.nan - tally.inf;
  if (finite == 0) return out;
  out.min = tally.min + 0.0;  // -0 becomes 0: which zero came first says nothing
  out.max = tally.max + 0.0;
  out.mean = tally.sum / static_cast<double>(finite) + 0.0;
  return out;
}

Result<int> ThreadsFor(const RunOptions& run, size_t runs) {
  NXDKIT_ASSIGN(const ExecuteOptions execute, MakeExecuteOptions(run));
  const uint64_t affordable = execute.buffer_bytes / kWorkerBytes;
  if (affordable == 0)
    return Error(Errc::kLimit, fmt::format("{} bytes are left for buffers, one thread needs {}",
                                           execute.buffer_bytes, kWorkerBytes))
        .hint("raise --max-memory");
  const auto wanted = static_cast<uint64_t>(std::max(run.jobs, 1));
  return static_cast<int>(std::min({wanted, affordable, std::max<uint64_t>(runs, 1)}));
}

}  // namespace

bool HasStatistics(Dtype dtype) {
  switch (dtype) {
    case Dtype::kC32:
    case Dtype::kC64:
    case Dtype::kC128:
      return false;
    default:
      return ElementBytes(dtype) > 0;
  }
}

Result<std::vector<std::optional<TensorStatistics>>> ComputeStatistics(
    std::span<const StoredTensor* const> tensors, const RunOptions& run) {
  const std::vector<Job> jobs = JobsOf(tensors);
  std::vector<Run> runs = RunsOf(jobs);
  if (run.begin) run.begin("statistics", BytesToRead(jobs, runs));
  NXDKIT_ASSIGN(const int threads, ThreadsFor(run, runs.size()));
  NXDKIT_TRY(ParallelFor(runs.size(), threads, [&]() -> LoopBody {
    const auto worker = std::make_shared<Worker>();  // shared: a function can be copied
    return [&, worker](size_t i) { return TallyRun(*worker, jobs[runs[i].tensor], run, runs[i]); };
  }));

  std::vector<Tally> tallies(tensors.size());
  for (const Run& done : runs) tallies[done.tensor].Merge(done.tally);
  std::vector<std::optional<TensorStatistics>> out(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (HasStatistics(tensors[i]->dtype)) out[i] = Summary(tallies[i], jobs[i].view.repeats);
  return out;
}

}  // namespace nxdkit::ops
