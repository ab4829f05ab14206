// Whether a model fits into the memory of its cores, before anything is written. The memory that
// compiler and runtime need in addition follows from no file: it is a reserve, and reported as one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hardware/instance.h"

namespace nxdkit::hardware {

// A rollout bundle's memory per core: its weights and the KV cache.
struct RolloutUse {
  int64_t tp = 1;
  uint64_t weight_bytes = 0;  // of the largest rank's file
  // The cache: 2 * layers * batch * sequence * heads * head_dim * element bytes.
  int64_t layers = 0, batch = 0, sequence = 0, kv_heads_per_rank = 0, head_dim = 0;
  int64_t element_bytes = 2;

  uint64_t cache_bytes() const;
};

enum class Grows { kWithParallel, kWithMicroBatch, kWithCache };  // the lever that changes it

struct MemoryRow {
  std::string what;  // "weights", "KV cache", ...
  uint64_t bytes = 0;
  Grows grows = Grows::kWithParallel;
};

// The state kept for each trained parameter, in addition to its bfloat16 weight.
enum class States {
  // NxD's mixed precision (the NxD Training configuration guide): a float32 gradient, two float32
  // moments and a float32 master weight.
  kMixed,
  kBf16,       // NxD's bf16SR: a gradient and two moments, all in bfloat16
  kBf16Kahan,  // EasyR1's adamw_bf16: kBf16, and a compensation of the weight
};
struct StateBytes {
  int64_t gradient = 0;
  int64_t optimizer = 0;
};
StateBytes BytesOf(States states);  // of one parameter

// Weights, gradients and states of `elements` parameters, the states cut over `optimizer_over`
// ranks.
uint64_t TrainedBytes(uint64_t elements, States states, int64_t optimizer_over);

// A step of NxD's training, per core; ZeRO-1 cuts the optimizer's states over the data parallel
// ranks.
struct TrainingUse {
  int64_t tp = 1, pp = 1;
  uint64_t rank_elements = 0;  // parameters of the largest rank
  int64_t nodes = 1;
  int64_t cores = 0;         // that train, of all in the nodes; 0: all
  int64_t cores_beside = 0;  // used for rollout
  bool zero1 = true;
  States states = States::kMixed;
  // A micro-batch: sequences of `sequence` tokens, cut over `cp` context parallel ranks; with
  // sequence parallelism; selective recomputation, or recomputation of whole layers.
  int64_t micro_batch = 1, sequence = 0, cp = 1;
  int64_t scored = 0;  // sequences of a pass without gradients, where its logits need more
  int64_t hidden = 0, layers = 0, vocab = 0;
  bool recompute = false;
  std::vector<MemoryRow> beside = {};  // others on these cores: a reference model, an engine
};

struct Fit {
  std::string instance;
  int64_t cores = 0;
  int64_t data_parallel = 1;  // or the number of engines that fit
  uint64_t core_bytes = 0;    // of device memory
  std::vector<MemoryRow> rows;
  std::string assumed;                // training: the assumptions behind the rows
  uint64_t reserve_bytes = 0;         // for scratch, code, collectives: a guess
  std::vector<std::string> problems;  // why it cannot run; empty: it fits
  std::vector<std::string> warnings;
  std::string smallest;  // the smallest instance on which it fits; "" if one node is not enough

  uint64_t used_bytes() const;  // the rows, without the reserve
};

Fit FitRollout(const Instance& instance, const RolloutUse& use);
Fit FitTraining(const Instance& instance, const TrainingUse& use);

// The user's names for these sizes: "--tp", or the key of a configuration.
struct Levers {
  std::string_view parallel;     // tensor (and pipeline) parallel size
  std::string_view micro_batch;  // the tokens of a micro-batch
  std::string_view cache;        // batch and sequence length of the engine
};

// kFindings with every reason why it does not fit, and the smallest instance on which it does, or
// else the lever with the most effect.
Status CheckFit(const Fit& fit, const Levers& levers);

std::string GibText(uint64_t bytes);  // "1.03 GiB", the unit of device memory

// "weights 1.03 GiB + KV cache 4.50 GiB = 5.53 GiB of 16 GiB a core (35 %)"
std::string FitText(const Fit& fit);

}  // namespace nxdkit::hardware
