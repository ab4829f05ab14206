#include "formats/ops/run.h"

#include <fmt/format.h>

#include "lib/system.h"

namespace nxdkit::ops {
namespace {

// Stacks, allocator slack, file tables: what grows after the buffers are taken.
constexpr uint64_t kReserve = 24u << 20;

}  // namespace

Result<ExecuteOptions> MakeExecuteOptions(const RunOptions& run, uint64_t share) {
  const uint64_t taken = RssBytes() + kReserve;
  if (taken >= run.max_memory)
    return Error(Errc::kLimit,
                 fmt::format("{} bytes are needed before any tensor is read ({} for stacks and "
                             "tables), the cap is {}",
                             taken, kReserve, run.max_memory))
        .hint("raise --max-memory");
  ExecuteOptions options;
  options.jobs = run.jobs;
  options.buffer_bytes = (run.max_memory - taken) / share;
  options.poll = run.poll;
  options.on_bytes = run.on_bytes;
  return options;
}

}  // namespace nxdkit::ops
