// PRIVATE to trainer/engines. Threads that wait for answers: a bounded number of requests at a
// time; answers are handed over on the calling thread as they arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// Called on a thread of the crew; ends soon once `poll` returns an error.
using CrewTask = std::function<Result<std::vector<RolloutResponse>>(
    size_t number, const std::function<Status()>& poll)>;
using CrewDone = std::function<void(size_t number, std::vector<RolloutResponse> responses)>;

// Tasks 0 to count - 1 on at most `threads` threads, started in this order. `poll` is called
// several times a second, on the calling thread. The first error of a task or of `poll` stops all
// of them.
Status RunCrew(size_t count, int threads, const std::function<Status()>& poll, const CrewTask& task,
               const CrewDone& done);

}  // namespace nxdkit::trainer
