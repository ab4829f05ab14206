// Rollout workers on the machines of a run: the process of the run on each machine starts them, and
// they speak to the pool in process 0 through a relay. PRIVATE: it exposes parsed JSON; include it
// from .cc files only.
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

// The division of one machine's cores: its ranks of the mesh, then its rollout workers.
CoreSplit SplitOfMachine(const RunPlan& plan, int64_t machine, bool workers_have_cores);

struct RemoteWorkers {
  const RunPlan& plan;
  WorkerPoolOptions pool;      // for machine 0; environment_of is that of its workers
  bool others = false;         // engines of other programs
  bool have_cores = false;     // not shared with another worker
  int64_t instance_cores = 0;  // 0: no instance was named

  // For WorkerPoolOptions::start: as StartLocalWorker on machine 0, by order elsewhere. `leader`
  // and `plan` must outlive the started workers.
  std::function<Result<StartedWorker>(size_t index)> StarterOf(Leader& leader) const;
};

// In a process other than the first: starts and ends workers as ordered. Its handlers must not
// outlive it.
class WorkerHost {
 public:
  // `command`: runs a worker; `taken`: TakeNeuronVariables of this process.
  WorkerHost(Transport& transport, std::vector<std::string> command,
             std::vector<std::string> taken);
  ~WorkerHost();  // ends all workers and their connections
  void AddHandlers(OrderHandlers& handlers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
