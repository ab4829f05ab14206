// The memory that a run takes, estimated before anything is loaded: sums over all ranks and rollout
// workers, with micro-batches and caches as full as the configuration allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/rollout/rollout_layout.h"
#include "lib/tensor/dtype.h"
#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

// The place of an engine's weights and cache.
enum class EnginePlace {
  kHost,       // the memory of the machines of the run
  kDevice,     // Neuron devices of these machines: their cores hold it, their memory does not
  kElsewhere,  // with servers that run
};

// The sizes that a rollout engine is made for.
struct EngineShape {
  int64_t tp = 1;
  int64_t slots = 1;  // sequences in its cache
  int64_t positions = 1;
  Dtype dtype = Dtype::kBF16;
  EnginePlace place = EnginePlace::kHost;
  rollout::Geometry layout{};  // of its bundle, if it has one; except `tp`
  // Whether it returns log-probabilities: a graph that samples on the device does not.
  bool tells_log_probs = true;
};

struct MemoryPart {
  std::string name;
  uint64_t bytes = 0;
  std::string keys;  // keys of the configuration that lower it and are not already set that way
};

struct MemoryEstimate {
  std::vector<MemoryPart> parts;  // without those that are 0
  uint64_t bytes() const;         // of all
};

// The estimate for one machine of the run. `critic`: nullptr if there is none. kUnsupported as
// MakeParamTable.
Result<MemoryEstimate> EstimateMemory(const Config& config, const RunPlan& plan,
                                      const DecoderConfig& model, const EngineShape& engine,
                                      const DecoderConfig* critic = nullptr, int64_t machine = 0);

// "memory: at most 3.41 GiB of 24.0: weights 0.18, gradients 0.36, ..."
std::string MemoryText(const MemoryEstimate& estimate, uint64_t limit);

// kLimit with the numbers, and the keys of the largest parts, when it is over `limit`.
Status CheckMemory(const MemoryEstimate& estimate, uint64_t limit);

}  // namespace nxdkit::trainer
