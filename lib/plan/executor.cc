#include "lib/plan/executor.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "lib/base/errors.h"
#include "lib/base/parallel.h"
#include "lib/plan/gather.h"

namespace nxdkit {
namespace {

constexpr uint64_t kLeastBudget = 1 << 20;
constexpr uint64_t kLeastWorker = 128 << 10;
// Dense tensors go straight from pread to pwrite: a buffer that stays in the second-level cache.
constexpr uint64_t kStreamChunk = 1 << 20;

// Elements [first, last] of the source that an op touches.
struct Span {
  uint32_t source;
  int64_t first;
  int64_t last;
  auto operator<=>(const Span&) const = default;
};

Span SpanOf(const CopyOp& op) {
  int64_t last = op.start;
  for (size_t d = 0; d < op.box.extent.size(); ++d) last += (op.box.extent[d] - 1) * op.strides[d];
  return {op.source, op.start, last};
}

// The spans that a tensor's ops touch, ascending; overlapping ones are merged.
std::vector<Span> SpansOf(const TensorPlan& plan) {
  std::vector<Span> spans;
  for (const CopyOp& op : plan.copies) spans.push_back(SpanOf(op));
  std::ranges::sort(spans);
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && merged.back().source == span.source && span.first <= merged.back().last)
      merged.back().last = std::max(merged.back().last, span.last);
    else
      merged.push_back(span);
  }
  return merged;
}

bool SpansMeet(const TensorPlan& a, const TensorPlan& b) {
  const std::vector<Span> spans = SpansOf(a);
  return std::ranges::any_of(b.copies, [&](const CopyOp& op) {
    const Span span = SpanOf(op);
    const auto after = std::ranges::upper_bound(spans, Span{op.source, span.last, INT64_MAX});
    if (after == spans.begin()) return false;
    const Span& before = *std::prev(after);  // the last that begins within the op's span or earlier
    return before.source == op.source && before.last >= span.first;
  });
}

// Whether rows of the output are columns of the source, as for experts: a chunk then needs a part
// of every row of the source, and a larger chunk reads fewer bytes in vain.
bool IsTransposed(const TensorPlan& plan) {
  for (const CopyOp& op : plan.copies) {
    size_t last = op.box.extent.size();  // the innermost dimension that is one
    while (last > 0 && op.box.extent[last - 1] == 1) --last;
    if (last > 1 && op.strides[last - 1] > 1) return true;
  }
  return false;
}

// Transposed tensors are made together if one read serves them. A larger span is read in pieces
// anyway, and then larger chunks of one tensor gain more.
bool FitsStaging(const TensorPlan& plan, const BoundLayout& source, uint64_t staging_bytes) {
  if (!IsTransposed(plan)) return true;
  const CopyOp& op = plan.copies.front();
  const Span span = SpanOf(op);
  const int64_t bytes = (span.last - span.first + 1) * ElementBytes(source.stored[op.source].dtype);
  return static_cast<uint64_t>(bytes) <= staging_bytes;
}

// The key of tensors that may be made together; see `Groups`.
struct GroupKey {
  std::string name;
  Shape shape;
  std::vector<uint32_t> sources;
  auto operator<=>(const GroupKey&) const = default;
};

// Tensors of the same name and shape are the ranks' parts of one parameter. Transposed ones have
// the same key if they come from the same matrices: gate and up of an expert are side by side in
// each row.
GroupKey KeyOf(const TensorPlan& plan, const OutputTensor& output) {
  if (!IsTransposed(plan)) return {output.name, output.shape, {}};
  GroupKey key{"", output.shape, {}};
  for (const CopyOp& op : plan.copies) key.sources.push_back(op.source);
  return key;
}

// The groups, each in ascending order. One matrix may have thousands of transposed tensors that
// follow each other (the experts of a layer); only overlapping neighbours stay together.
std::vector<std::vector<uint32_t>> Groups(const Plan& plan,
                                          const std::vector<OutputTensor>& outputs) {
  std::map<GroupKey, std::vector<uint32_t>> by_key;
  for (uint32_t t = 0; t < outputs.size(); ++t)
    by_key[KeyOf(plan.tensors[t], outputs[t])].push_back(t);
  std::vector<std::vector<uint32_t>> groups;
  for (auto& [key, members] : by_key) {
    if (key.sources.empty()) {
      groups.push_back(std::move(members));
      continue;
    }
    std::ranges::stable_sort(members, {},
                             [&](uint32_t t) { return plan.tensors[t].copies.front().start; });
    for (size_t i = 0; i < members.size(); ++i) {
      const bool meets = i > 0 && SpansMeet(plan.tensors[members[i - 1]], plan.tensors[members[i]]);
      if (!meets) groups.emplace_back();
      groups.back().push_back(members[i]);
    }
  }
  for (std::vector<uint32_t>& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups);
  return groups;
}

// How many times more bytes an element takes in the source than in the output: bytes read once for
// several tensors must fit the staging area, which is as large as their chunks.
uint64_t Widening(const TensorPlan& plan, const BoundLayout& source, Dtype output) {
  const int64_t bytes = std::max<int64_t>(1, ElementBytes(output));
  int64_t widest = bytes;
  for (const CopyOp& op : plan.copies)
    widest = std::max(widest, ElementBytes(source.stored[op.source].dtype));
  return static_cast<uint64_t>((widest + bytes - 1) / bytes);
}

std::vector<ElementRange> AlignedChunks(const Shape& shape, int64_t element_bytes, uint64_t bytes) {
  const int64_t volume = WholeBox(shape).Volume();
  const int64_t step = static_cast<int64_t>(bytes) / element_bytes;
  std::vector<ElementRange> chunks;
  for (int64_t first = 0; first < volume; first += step)
    chunks.push_back({first, std::min(first + step, volume)});
  return chunks;
}

}  // namespace

class Worker {
 public:
  explicit Worker(const Executor& executor)
      : executor_(executor),
        memory_(executor.worker_bytes_ / 2),
        gatherer_(executor.worker_bytes_ - executor.worker_bytes_ / 2) {}

  Status Do(uint64_t index, Sink& sink) {
    const Executor::Task& task = executor_.tasks_[index];
    uint64_t used = 0;
    std::vector<Move> moves;
    std::vector<Part> parts;
    for (uint32_t tensor : task.tensors) {
      const OutputTensor& output = (*executor_.outputs_)[tensor];
      const uint64_t bytes = task.size() * ElementBytes(output.dtype);
      parts.push_back({tensor, memory_.span().subspan(used, bytes)});
      used += bytes;
    }
    const std::vector<Box> boxes = executor_.BoxesOf(task);
    if (executor_.options_.base && !executor_.Covers(task))
      NXDKIT_TRY(LoadBase(task, boxes, parts));
    for (const Part& part : parts)
      AddRangeMoves(executor_.plan_->tensors[part.tensor], *executor_.source_,
                    (*executor_.outputs_)[part.tensor], task.first, boxes, part.bytes.data(),
                    moves);
    NXDKIT_TRY(gatherer_.Run(std::move(moves)));
    for (const Part& part : parts) {
      const Dtype dtype = (*executor_.outputs_)[part.tensor].dtype;
      NXDKIT_TRY(sink.Take(part.tensor, task.first * ElementBytes(dtype), part.bytes));
    }
    if (executor_.options_.on_bytes) executor_.options_.on_bytes(used);
    return sink.TaskDone(index);
  }

 private:
  struct Part {
    uint32_t tensor;
    std::span<std::byte> bytes;
  };

  Status LoadBase(const Executor::Task& task, const std::vector<Box>& boxes,
                  const std::vector<Part>& parts) {
    const BoundLayout& base = *executor_.options_.base;
    std::vector<Move> moves;
    for (const Part& part : parts)
      AddRangeMoves({{CopyWhole(base.stored[part.tensor], part.tensor)}, {}}, base,
                    (*executor_.outputs_)[part.tensor], task.first, boxes, part.bytes.data(),
                    moves);
    return gatherer_.Run(std::move(moves));
  }

  const Executor& executor_;
  PageBuffer memory_;
  Gatherer gatherer_;
};

Status Executor::CheckDtypes() const {
  for (size_t t = 0; t < outputs_->size(); ++t)
    NXDKIT_TRY(CheckElements(plan_->tensors[t], *source_, (*outputs_)[t]));
  return OkStatus();
}

std::vector<Box> Executor::BoxesOf(const Task& task) const {
  return RangeBoxes((*outputs_)[task.tensors.front()].shape, task.first, task.end);
}

// The number of elements in the task's part of `tensor` that the plan makes. Ops and fills are
// disjoint.
int64_t Executor::CountMade(const Task& task, uint32_t tensor) const {
  int64_t made = 0;
  for (const Box& chunk : BoxesOf(task)) {
    const auto add = [&](const Box& box) {
      if (const std::optional<Box> part = Intersect(box, chunk)) made += part->Volume();
    };
    for (const CopyOp& op : plan_->tensors[tensor].copies) add(op.box);
    for (const Fill& fill : plan_->tensors[tensor].fills) add(fill.stored);
  }
  return made;
}

bool Executor::Covers(const Task& task) const {
  return std::ranges::all_of(
      task.tensors, [&](uint32_t tensor) { return CountMade(task, tensor) == task.size(); });
}

bool Executor::Touches(const Task& task) const {
  return std::ranges::any_of(task.tensors,
                             [&](uint32_t tensor) { return CountMade(task, tensor) > 0; });
}

void Executor::AddTasks(const std::vector<uint32_t>& tensors, uint64_t chunk_bytes) {
  const OutputTensor& output = (*outputs_)[tensors.front()];
  const int64_t element_bytes = ElementBytes(output.dtype);
  const std::vector<ElementRange> chunks =
      options_.aligned_bytes > 0
          ? AlignedChunks(output.shape, element_bytes, options_.aligned_bytes)
          : ChunkRanges(output.shape, element_bytes, chunk_bytes);
  for (const ElementRange& chunk : chunks) {
    Task task{tensors, chunk.first, chunk.end};
    if (options_.base && !Touches(task)) continue;
    workload_.bytes += task.size() * element_bytes * tensors.size();
    tasks_.push_back(std::move(task));
  }
}

// Neighbouring tasks of different threads should write different files: the kernel lets one
// thread at a time write to a file. Tasks are dealt round robin over the files they begin with.
void Executor::OrderByFile() {
  std::map<uint32_t, std::vector<Task>> queues;
  for (Task& task : tasks_)
    queues[layout_->tensors[task.tensors.front()].file].push_back(std::move(task));
  const uint64_t total = tasks_.size();
  tasks_.clear();
  for (uint64_t round = 0; tasks_.size() < total; ++round)
    for (auto& [file, queue] : queues)
      if (round < queue.size()) tasks_.push_back(std::move(queue[round]));
}

Result<Executor> Executor::Make(const Plan& plan, const BoundLayout& source, const Layout& layout,
                                const std::vector<OutputTensor>& outputs,
                                const ExecuteOptions& options) {
  NXDKIT_CHECK(plan.tensors.size() == outputs.size() && layout.tensors.size() == outputs.size());
  Executor executor;
  executor.plan_ = &plan;
  executor.source_ = &source;
  executor.layout_ = &layout;
  executor.outputs_ = &outputs;
  executor.options_ = options;
  NXDKIT_TRY(executor.CheckDtypes());
  const uint64_t jobs = static_cast<uint64_t>(std::max(1, options.jobs));
  const auto too_little = [&](uint64_t least) {
    return OverLimit("{} bytes are left for the buffers of {} threads, at least {} are needed",
                     options.buffer_bytes, jobs, least)
        .hint(jobs > 1 ? "raise --max-memory or lower --jobs" : "raise --max-memory");
  };
  if (options.buffer_bytes < kLeastBudget || options.buffer_bytes / jobs < kLeastWorker)
    return too_little(std::max(kLeastBudget, jobs * kLeastWorker));
  executor.worker_bytes_ = std::min(options.buffer_bytes / jobs, options.worker_bytes);
  if (executor.worker_bytes_ / 2 < options.aligned_bytes)
    return too_little(jobs * 2 * options.aligned_bytes);
  executor.workload_.buffer_bytes = executor.worker_bytes_ * jobs;

  const uint64_t chunk_budget = executor.worker_bytes_ / 2;
  for (const std::vector<uint32_t>& group : Groups(plan, outputs)) {
    const uint32_t first = group.front();
    const OutputTensor& output = outputs[first];
    const int64_t row_bytes =
        (output.shape.empty() ? 1 : RowMajorStrides(output.shape)[0]) * ElementBytes(output.dtype);
    const uint64_t share =
        chunk_budget / (group.size() * Widening(plan.tensors[first], source, output.dtype));
    bool together = options.aligned_bytes == 0 && group.size() > 1 &&
                    SpansMeet(plan.tensors[group[0]], plan.tensors[group[1]]) &&
                    static_cast<uint64_t>(row_bytes) <= share &&
                    FitsStaging(plan.tensors[first], source, chunk_budget);
    for (uint32_t member : group) together &= outputs[member].dtype == output.dtype;
    if (together) {
      executor.AddTasks(group, share);
      continue;
    }
    for (uint32_t member : group)
      executor.AddTasks({member}, IsTransposed(plan.tensors[member])
                                      ? chunk_budget
                                      : std::min(chunk_budget, kStreamChunk));
  }
  executor.OrderByFile();
  executor.workload_.tasks = executor.tasks_.size();
  return executor;
}

Status Executor::Run(Sink& sink) const {
  return ParallelFor(tasks_.size(), options_.jobs, [&]() -> LoopBody {
    const auto worker = std::make_shared<Worker>(*this);  // shared: a function can be copied
    return [this, &sink, worker](size_t task) -> Status {
      if (sink.IsDone(task)) return OkStatus();
      if (options_.poll) NXDKIT_TRY(options_.poll());
      return worker->Do(task, sink);
    };
  });
}

}  // namespace nxdkit
