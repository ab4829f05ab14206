// PRIVATE to the trainer's .cc files: loops over independent tasks on this rank's threads. Their
// number is set once per rank with SetThreads; results never depend on it.
#pragma once

#include <omp.h>

#include <cstdint>
#if defined(__SANITIZE_THREAD__)
#include <atomic>

#include "lib/base/parallel.h"
#endif

namespace nxdkit::trainer {

// Sets the number of threads that the calling thread's loops and matrix products use.
inline void SetThreads(int threads) { omp_set_num_threads(threads); }
inline int MaxThreads() { return omp_get_max_threads(); }

#if defined(__SANITIZE_THREAD__)
inline thread_local int loop_thread = 0;
#endif

// In a loop's body: the index of the thread that runs it, below the number set with SetThreads.
inline int LoopThread() {
#if defined(__SANITIZE_THREAD__)
  return loop_thread;
#else
  return omp_get_thread_num();
#endif
}

// Runs body(i) for i in [0, count), in any order. `grain` tasks justify a thread of their own.
template <typename Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
#if defined(__SANITIZE_THREAD__)  // it cannot see that OpenMP's threads wait for each other
  std::atomic<int> threads = 0;
  const auto make_body = [&]() -> LoopBody {
    return [&, thread = threads++](size_t i) {
      loop_thread = thread;
      body(static_cast<int64_t>(i));
      return OkStatus();
    };
  };
  NXDKIT_CHECK(nxdkit::ParallelFor(static_cast<size_t>(count),
                                   count > grain ? omp_get_max_threads() : 1,
                                   std::function<LoopBody()>(make_body))
                   .ok());
#else
#pragma omp parallel for schedule(static) if (count > grain)
  for (int64_t i = 0; i < count; ++i) body(i);
#endif
}

// Runs body(first, end) for pieces of [0, count) of `piece` elements.
template <typename Body>
void ParallelPieces(int64_t count, int64_t piece, const Body& body) {
  const int64_t pieces = (count + piece - 1) / piece;
  ParallelFor(pieces, 1, [&](int64_t i) {
    const int64_t first = i * piece;
    body(first, first + piece < count ? first + piece : count);
  });
}

}  // namespace nxdkit::trainer
