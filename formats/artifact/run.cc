#include "formats/artifact/run.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/system/system.h"

namespace nxdkit::artifact {
namespace {

// Stacks, allocator slack, file tables: memory that grows after the buffers are taken.
constexpr uint64_t kReserve = 24u << 20;

// Memory freed by parsing counts only if it cannot be returned.
uint64_t MemoryTaken(const RunOptions& run) {
  if (run.alone && RssBytes() + kReserve >= run.max_memory) ReturnFreeMemory();
  return HeldBytes(run) + kReserve;
}

}  // namespace

uint64_t HeldBytes(const RunOptions& run) { return run.alone ? RssBytes() : 0; }

Result<ExecuteOptions> MakeExecuteOptions(const RunOptions& run, uint64_t share) {
  const uint64_t taken = MemoryTaken(run);
  if (taken >= run.max_memory)
    return OverLimit(
               "{} bytes are needed before any tensor is read ({} for stacks and tables), the cap "
               "is {}",
               taken, kReserve, run.max_memory)
        .hint("raise --max-memory");
  ExecuteOptions options;
  options.jobs = run.jobs;
  options.buffer_bytes = (run.max_memory - taken) / share;
  options.poll = run.poll;
  options.on_bytes = run.on_bytes;
  return options;
}

RunOptions LessPerThread(RunOptions run, uint64_t bytes) {
  run.max_memory -= std::min(run.max_memory, bytes * static_cast<uint64_t>(std::max(1, run.jobs)));
  return run;
}

Result<ExecuteOptions> MakeAlignedOptions(const RunOptions& run, uint64_t aligned_bytes,
                                          uint64_t extra_bytes) {
  NXDKIT_ASSIGN(ExecuteOptions options, MakeExecuteOptions(run));
  const uint64_t least = 2 * aligned_bytes;  // half of a worker's buffers are for staging
  const uint64_t affordable = options.buffer_bytes / (least + extra_bytes);
  if (affordable == 0)
    return OverLimit("{} bytes are left for buffers, one thread needs {}", options.buffer_bytes,
                     least + extra_bytes)
        .hint("raise --max-memory");
  options.aligned_bytes = aligned_bytes;
  options.jobs =
      static_cast<int>(std::min(affordable, static_cast<uint64_t>(std::max(1, options.jobs))));
  options.buffer_bytes -= static_cast<uint64_t>(options.jobs) * extra_bytes;
  return options;
}

}  // namespace nxdkit::artifact
