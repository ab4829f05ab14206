// Which of the two sides the variables of Neuron devices (NEURON_COMPILED_ARTIFACTS,
// NEURON_RT_VISIBLE_CORES and their kin) belong to: rollout. A compiled bundle that training picked
// up would be used for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hardware/given_cores.h"
#include "lib/base/error.h"

namespace nxdkit::trainer {

// Takes every NEURON_* and NEURONX_* entry ("NAME=value") out of this process's environment, also
// from where other processes read it (/proc/PID/environ), and returns them sorted. Before threads
// start: no other one may read the environment meanwhile.
std::vector<std::string> TakeNeuronVariables();

using hardware::GivenCores;
using hardware::GivenCoresOfProcess;
using hardware::ParseGivenCores;
using hardware::ParseVisibleCores;

// How the cores of a run are divided: those of training first, then worker by worker.
struct CoreSplit {
  int64_t train_cores = 0;
  int64_t train_tp = 1;
  int64_t workers = 0;
  int64_t cores_per_worker = 0;  // the tensor-parallel size of rollout

  int64_t all() const { return train_cores + workers * cores_per_worker; }
};

// The cores of the whole run, in their order: those that are visible, else the first ones. kUsage
// when they are too few, or, on an instance (instance_cores > 0), beyond its last one; and when a
// tensor-parallel group of them does not run through, from a multiple of its size on, as the
// collectives need it (PyTorch Neuron's developer guide). Without given cores and an instance
// nothing is known of devices, and nothing is refused.
Result<std::vector<int64_t>> CoresOfRun(const GivenCores& given, const CoreSplit& split,
                                        int64_t instance_cores);

// What the workers get: `all` is for each of them, `of[worker]` for one alone.
struct RolloutEnvironment {
  std::vector<std::string> all;
  std::vector<std::vector<std::string>> of;
  bool has_given_cores = false;  // GivenCores::any of the environment: the run is on devices
};

// `taken` for all workers, but NEURON_RT_VISIBLE_CORES, of which each gets its own: "16-23", of
// CoresOfRun; it also stands for NEURON_RT_NUM_CORES, which is not set where it is empty. kUsage as
// there.
Result<RolloutEnvironment> DivideNeuronVariables(const std::vector<std::string>& taken,
                                                 const CoreSplit& split,
                                                 int64_t instance_cores = 0);

}  // namespace nxdkit::trainer
