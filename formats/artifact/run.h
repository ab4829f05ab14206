// What every operation over weights takes: threads, the memory cap, and the way to tell and to
// stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "formats/artifact/words.h"
#include "lib/base/error.h"
#include "lib/plan/executor.h"

namespace nxdkit::artifact {

struct RunOptions {
  int jobs = 1;
  // False: the process holds more than this work does, and its memory says nothing of it.
  bool alone = true;
  uint64_t max_memory = uint64_t{512} << 20;
  std::function<Status()> poll;  // kInterrupted stops the work
  std::function<void(const std::string& phase, uint64_t bytes)> begin;  // a phase with its bytes
  std::function<void(uint64_t bytes)> on_bytes;  // bytes done, from any thread
};

// The memory that the work holds before its buffers: all that the process does, where it is alone.
uint64_t HeldBytes(const RunOptions& run);

// Executor options within the cap: what the process has not taken yet, less a reserve. kLimit when
// too little is left. `share` divides it, for sinks that need buffers of their own.
Result<ExecuteOptions> MakeExecuteOptions(const RunOptions& run, uint64_t share = 1);

// `run` with the cap less what every thread takes beside the executor's buffers.
RunOptions LessPerThread(RunOptions run, uint64_t bytes);

// MakeExecuteOptions for chunks of exactly `aligned_bytes`, each worker with `extra_bytes` of its
// own beside the executor's buffers: with as many threads as the cap has memory for.
Result<ExecuteOptions> MakeAlignedOptions(const RunOptions& run, uint64_t aligned_bytes,
                                          uint64_t extra_bytes = 0);

}  // namespace nxdkit::artifact
