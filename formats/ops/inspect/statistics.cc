#include "formats/ops/inspect/statistics.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "lib/plan/executor.h"
#include "lib/tensor/tally.h"

namespace nxdkit::ops {
namespace {

// The bytes tallied at once. Small enough to stay in the second-level cache.
constexpr uint64_t kPieceBytes = 256 << 10;
constexpr uint64_t kChunkBytes = 2 * kPieceBytes;  // of the executor
// The sums of the pieces are added in runs of this many; of more if a tensor would have more runs
// than kMaxRuns.
constexpr size_t kPiecesPerRun = 64;
constexpr size_t kMaxRuns = 4096;

// The elements in the order of their bytes, each once: dimensions by falling stride, repeated ones
// (stride 0) removed and counted in `repeats`.
StoredTensor InOrderOfBytes(const StoredTensor& tensor, uint64_t& repeats) {
  StoredTensor out = tensor;
  out.shape.clear();
  out.strides.clear();
  std::vector<size_t> order;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] == 0 && tensor.shape[d] > 0)
      repeats *= static_cast<uint64_t>(tensor.shape[d]);
    else if (tensor.shape[d] != 1)
      order.push_back(d);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t d) { return tensor.strides[d]; });
  for (const size_t d : order) {
    out.shape.push_back(tensor.shape[d]);
    out.strides.push_back(tensor.strides[d]);
  }
  return out;
}

struct StoredPlan {
  BoundLayout source;
  std::vector<OutputTensor> outputs;
  Plan plan;

  void Add(StoredTensor tensor) {
    const auto index = static_cast<uint32_t>(outputs.size());
    outputs.push_back({tensor.name, tensor.dtype, tensor.shape});
    plan.tensors.push_back({{CopyWhole(tensor, index)}, {}});
    TensorLayout& layout = source.layout.tensors.emplace_back();
    layout.name = tensor.name;
    layout.shape = tensor.shape;
    source.stored.push_back(std::move(tensor));
  }
};

class StatisticsSink : public Sink {
 public:
  explicit StatisticsSink(const std::vector<OutputTensor>& outputs)
      : outputs_(outputs), tallies_(outputs.size()), sums_(outputs.size()) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint64_t bytes = *PackedBytes(outputs[i].dtype, outputs[i].shape);
      sums_[i].resize((bytes + kPieceBytes - 1) / kPieceBytes);
    }
  }

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    const Dtype dtype = outputs_[tensor].dtype;
    Tally chunk;
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const auto piece = bytes.subspan(at, std::min<size_t>(kPieceBytes, bytes.size() - at));
      const Tally tally = TallyElements(dtype, piece.data(),
                                        static_cast<int64_t>(piece.size()) / ElementBytes(dtype));
      sums_[tensor][(offset + at) / kPieceBytes] = tally.sum;
      chunk.Merge(tally);
    }
    const std::lock_guard lock(mutex_);
    tallies_[tensor].Merge(chunk);
    return OkStatus();
  }

  // Call after the run. The sum is computed again, in an order that does not depend on threads.
  Tally Of(size_t tensor) const {
    Tally tally = tallies_[tensor];
    const std::vector<double>& sums = sums_[tensor];
    const size_t run = std::max(kPiecesPerRun, sums.size() / kMaxRuns + 1);
    tally.sum = 0;
    for (size_t first = 0; first < sums.size(); first += run)
      tally.sum += std::accumulate(sums.data() + first,
                                   sums.data() + std::min(first + run, sums.size()), 0.0);
    return tally;
  }

 private:
  const std::vector<OutputTensor>& outputs_;
  std::mutex mutex_;
  std::vector<Tally> tallies_;
  std::vector<std::vector<double>> sums_;  // of pieces; threads write different ones
};

TensorStatistics Summary(const Tally& tally, uint64_t repeats) {
  TensorStatistics out;
  out.elements = tally.elements * repeats;
  out.nan = tally.nan * repeats;
  out.inf = tally.inf * repeats;
  out.zeros = tally.zeros * repeats;
  const uint64_t finite = tally.elements - tally.nan - tally.inf;
  if (finite == 0) return out;
  out.min = tally.min + 0.0;  // -0 becomes 0: which zero came first is arbitrary
  out.max = tally.max + 0.0;
  out.mean = tally.sum / static_cast<double>(finite) + 0.0;
  return out;
}

}  // namespace

Result<std::vector<std::optional<TensorStatistics>>> ComputeStatistics(
    std::span<const StoredTensor* const> tensors, const RunOptions& run) {
  StoredPlan all;
  std::vector<uint64_t> repeats(tensors.size(), 1);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (HasTally(tensors[i]->dtype)) all.Add(InOrderOfBytes(*tensors[i], repeats[i]));
  NXDKIT_ASSIGN(const ExecuteOptions options, MakeAlignedOptions(run, kChunkBytes));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(all.plan, all.source, all.source.layout, all.outputs, options));
  if (run.begin) run.begin("statistics", executor.workload().bytes);
  StatisticsSink sink(all.outputs);
  NXDKIT_TRY(executor.Run(sink));
  std::vector<std::optional<TensorStatistics>> out(tensors.size());
  for (size_t i = 0, next = 0; i < tensors.size(); ++i)
    if (HasTally(tensors[i]->dtype)) out[i] = Summary(sink.Of(next++), repeats[i]);
  return out;
}

}  // namespace nxdkit::ops
