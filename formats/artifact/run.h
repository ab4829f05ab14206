// The settings of every operation over weights: threads, the memory cap, progress and interruption.
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
  // False: the process holds more than this work, and its memory cannot be counted as this work's.
  bool alone = true;
  uint64_t max_memory = uint64_t{512} << 20;
  std::function<Status()> poll;  // kInterrupted stops the work
  std::function<void(const std::string& phase, uint64_t bytes)> begin;  // a phase with its bytes
  std::function<void(uint64_t bytes)> on_bytes;  // bytes done, from any thread
};

// The memory that the work holds before its buffers: all of the process's, if it is alone.
uint64_t HeldBytes(const RunOptions& run);

// Executor options within the cap: the memory that the process has not taken yet, less a reserve.
// kLimit if too little is left. `share` divides it, for sinks that need buffers of their own.
Result<ExecuteOptions> MakeExecuteOptions(const RunOptions& run, uint64_t share = 1);

// `run` with the cap reduced by the memory that every thread takes besides the executor's buffers.
RunOptions LessPerThread(RunOptions run, uint64_t bytes);

// MakeExecuteOptions for chunks of exactly `aligned_bytes`, where each worker takes `extra_bytes`
// besides the executor's buffers: with as many threads as the cap has memory for.
Result<ExecuteOptions> MakeAlignedOptions(const RunOptions& run, uint64_t aligned_bytes,
                                          uint64_t extra_bytes = 0);

}  // namespace nxdkit::artifact
