// Runs a slice plan in parallel within a byte budget: every output tensor is made in contiguous
// chunks, each handed to a sink. No full tensor is ever held.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/plan/plan.h"
#include "lib/tensor/output.h"

namespace nxdkit {

// Receives finished chunks. Take is called from several threads, in any order, each byte once.
class Sink {
 public:
  virtual ~Sink() = default;
  // `bytes` are the packed, row-major, little-endian bytes of output tensor `tensor` from byte
  // `offset` on.
  virtual Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) = 0;
  // All chunks of the task have been taken; tasks are numbered 0.. the same way in every run of
  // the same plan and budget.
  virtual Status TaskDone(uint64_t /*task*/) { return OkStatus(); }
  // Whether an earlier, interrupted run has done the task: it is skipped.
  virtual bool IsDone(uint64_t /*task*/) const { return false; }
};

struct ExecuteOptions {
  int jobs = 1;
  // The total for the buffers of all workers. Small budgets cost speed; under 1 MiB: kLimit.
  uint64_t buffer_bytes = 64u << 20;
  // The upper bound for one worker: more gains nothing, since buffers should stay in cache.
  uint64_t worker_bytes = 16u << 20;
  // Polled between tasks; a returned error stops the run.
  std::function<Status()> poll;
  std::function<void(uint64_t bytes)> on_bytes;  // progress: output bytes done
  // Every chunk begins at a multiple of this many bytes of its tensor and has this length, or ends
  // the tensor: chunks then do not depend on jobs and budget. 0: as the buffers allow. A multiple
  // of 16; a worker's buffers must hold two of them.
  uint64_t aligned_bytes = 0;
  // If set, chunks start with the contents of these tensors, and only chunks that the plan touches
  // are made (for comparing replicas and padding).
  const BoundLayout* base = nullptr;
};

// The bytes that one plan reads and writes.
struct Workload {
  uint64_t tasks = 0;
  uint64_t bytes = 0;         // output bytes
  uint64_t buffer_bytes = 0;  // taken for buffers, all workers
};

class Executor {
 public:
  // `outputs[i]` belongs to plan.tensors[i]; `layout` is the output layout (tensors that read the
  // same source ranges, such as the ranks' column slices, are made together). All arguments must
  // outlive the executor. kUnsupported for sub-byte dtypes or dtypes that cannot be converted.
  // kLimit when the budget is too small for the workers.
  static Result<Executor> Make(const Plan& plan, const BoundLayout& source, const Layout& layout,
                               const std::vector<OutputTensor>& outputs,
                               const ExecuteOptions& options);

  const Workload& workload() const { return workload_; }
  Status Run(Sink& sink) const;

 private:
  friend class Worker;
  // One chunk of one tensor, or of several tensors of the same shape: elements [first, end) in
  // row-major order.
  struct Task {
    std::vector<uint32_t> tensors;
    int64_t first = 0;
    int64_t end = 0;
    int64_t size() const { return end - first; }
  };
  std::vector<Box> BoxesOf(const Task& task) const;
  void AddTasks(const std::vector<uint32_t>& tensors, uint64_t chunk_bytes);
  void OrderByFile();
  int64_t CountMade(const Task& task, uint32_t tensor) const;
  bool Touches(const Task& task) const;
  bool Covers(const Task& task) const;
  Status CheckDtypes() const;

  const Plan* plan_ = nullptr;
  const BoundLayout* source_ = nullptr;
  const Layout* layout_ = nullptr;
  const std::vector<OutputTensor>* outputs_ = nullptr;
  ExecuteOptions options_;
  Workload workload_;
  uint64_t worker_bytes_ = 0;  // half for chunks, half for staging
  std::vector<Task> tasks_;
};

}  // namespace nxdkit
