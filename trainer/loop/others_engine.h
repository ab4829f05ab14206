// The options of an engine that is another program, as given to its workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/loop/memory_estimate.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// Longer than a server takes to end on request.
inline constexpr std::chrono::seconds kOthersGrace{45};

bool OthersEngine(const RolloutConfig& rollout);
// Whether it is declared to be vLLM Neuron.
bool OnVllmNeuron(const RolloutConfig& rollout);

// The sizes that such an engine is made for: those of the bundle that the configuration names, else
// those of the configuration. It is on the devices that a bundle is compiled for or, without a
// bundle, on those of the run (`on_devices`: it is for an instance, or was given cores). Errors are
// those of opening the bundle.
Result<EngineShape> OthersShape(const Config& config, const RunPlan& plan, bool on_devices);

// For each worker: its server's URL or the command, and, if its machine has several ranks, its
// share of the processors, of which every machine is assumed to have as many as this one. `vocab`
// is the model's. No more sequences are requested at a time than a compiled bundle is made for: a
// server refuses to start with more.
Result<std::vector<EngineOptions>> OthersEngines(const Config& config, const RunPlan& plan,
                                                 int64_t vocab, const EngineShape& shape);

// kNotFound, naming the key, if the program to start does not exist.
Status FindCommand(const RolloutConfig& rollout);

// The variables of our environment that configure such programs, in addition to those that every
// worker gets.
std::vector<std::string> OthersVariables();

// The processors of each of `ranks` ranks from `first` on, of `all` ranks that share `processors`,
// in the form of VLLM_CPU_OMP_THREADS_BIND: "0,1|2,3".
std::string BoundProcessors(const std::vector<int>& processors, int64_t first, int64_t ranks,
                            int64_t all);

}  // namespace nxdkit::trainer
