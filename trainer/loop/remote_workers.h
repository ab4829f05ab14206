// Rollout workers on the machines of a run: their processes are started by the process of the run
// that is there, and speak to the pool of process 0 through a relay. PRIVATE: it takes parsed JSON;
// include it from .cc files only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/plan.h"
#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"
#include "trainer/rollout/neuron_environment.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {

// How the cores of one machine are divided: its ranks of the mesh, then its rollout workers.
CoreSplit SplitOfMachine(const RunPlan& plan, int64_t machine, bool workers_have_cores);

struct RemoteWorkers {
  const RunPlan& plan;
  WorkerPoolOptions pool;      // of machine 0; environment_of is that of its workers
  bool others = false;         // engines of other programs
  bool have_cores = false;     // of their own, which no other worker has
  int64_t instance_cores = 0;  // 0: no instance was named

  // For WorkerPoolOptions::start: on machine 0 as StartLocalWorker, elsewhere by order. `leader`
  // and `plan` must outlive what it starts.
  std::function<Result<StartedWorker>(size_t index)> StarterOf(Leader& leader) const;
};

// Of another process than the first: starts and ends workers as it is told. Its handlers must not
// outlive it.
class WorkerHost {
 public:
  // `command`: what runs a worker; `taken`: TakeNeuronVariables of this process.
  WorkerHost(Transport& transport, std::vector<std::string> command,
             std::vector<std::string> taken);
  ~WorkerHost();  // ends all, and what is spoken with them
  void AddHandlers(OrderHandlers& handlers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
