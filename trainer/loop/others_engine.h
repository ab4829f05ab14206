// What the configuration says of an engine that is another program's, as its workers are told it.
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

// More than a server takes to end that was asked to.
inline constexpr std::chrono::seconds kOthersGrace{45};

bool OthersEngine(const RolloutConfig& rollout);
// Whether it is said to be vLLM Neuron.
bool OnVllmNeuron(const RolloutConfig& rollout);

// The sizes that such an engine is made for: those of the bundle that the configuration names, else
// those of the configuration. It lies on the devices that a bundle is compiled for, or, without a
// bundle, on those that the run has (`on_devices`: it is for an instance, or was given cores).
// Errors are those of opening the bundle.
Result<EngineShape> OthersShape(const Config& config, const RunPlan& plan, bool on_devices);

// For each worker: its server's URL, or the command, and its share of the processors of its
// machine, which are taken to be as many as here, where there is more than one rank there. `vocab`
// is the model's. Not more sequences are asked for at a time than a compiled bundle is made for: a
// server of one refuses to be started for more.
Result<std::vector<EngineOptions>> OthersEngines(const Config& config, const RunPlan& plan,
                                                 int64_t vocab, const EngineShape& shape);

// kNotFound, naming the key, when there is no such program as it is to be started.
Status FindCommand(const RolloutConfig& rollout);

// Of our environment what such programs are configured by, beside what every worker gets.
std::vector<std::string> OthersVariables();

// The processors of each of `ranks` ranks from `first` on, of `all` ranks that share `processors`,
// as VLLM_CPU_OMP_THREADS_BIND has them: "0,1|2,3".
std::string BoundProcessors(const std::vector<int>& processors, int64_t first, int64_t ranks,
                            int64_t all);

}  // namespace nxdkit::trainer
