// Keeps the variables of Neuron devices (NEURON_COMPILED_ARTIFACTS, NEURON_RT_VISIBLE_CORES and
// similar) for rollout. Training would use a compiled bundle that it found there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hardware/given_cores.h"
#include "lib/base/error.h"

namespace nxdkit::trainer {

// Removes every NEURON_* and NEURONX_* entry ("NAME=value") from this process's environment, also
// from /proc/PID/environ, and returns them sorted. Call it before threads start: none may read the
// environment meanwhile.
std::vector<std::string> TakeNeuronVariables();

using hardware::GivenCores;
using hardware::GivenCoresOfProcess;
using hardware::ParseGivenCores;
using hardware::ParseVisibleCores;

// The division of a run's cores: those of training first, then worker by worker.
struct CoreSplit {
  int64_t train_cores = 0;
  int64_t train_tp = 1;
  int64_t workers = 0;
  int64_t cores_per_worker = 0;  // the tensor-parallel size of rollout

  int64_t all() const { return train_cores + workers * cores_per_worker; }
};

// The cores of the whole run, in order: the visible ones, else the first ones. kUsage when there
// are too few, or, on an instance (instance_cores > 0), when one is beyond its last; and when a
// tensor-parallel group is not consecutive from a multiple of its size, as the collectives need it
// (PyTorch Neuron's developer guide). Without given cores and an instance, devices are unknown and
// nothing is refused.
Result<std::vector<int64_t>> CoresOfRun(const GivenCores& given, const CoreSplit& split,
                                        int64_t instance_cores);

// Variables for the workers: `all` for each of them, `of[worker]` for one alone.
struct RolloutEnvironment {
  std::vector<std::string> all;
  std::vector<std::vector<std::string>> of;
  bool has_given_cores = false;  // GivenCores::any in the environment: the run is on devices
};

// `taken` for all workers, except NEURON_RT_VISIBLE_CORES, of which each gets its own part of
// CoresOfRun: "16-23"; it also replaces NEURON_RT_NUM_CORES, which is not set if it is empty.
// kUsage as there.
Result<RolloutEnvironment> DivideNeuronVariables(const std::vector<std::string>& taken,
                                                 const CoreSplit& split,
                                                 int64_t instance_cores = 0);

}  // namespace nxdkit::trainer
