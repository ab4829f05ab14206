// Whether a model fits the memory of the cores that are to hold it, before anything is written.
// The memory that a compiler and a runtime take besides follows from no file: it is a reserve, and
// said so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hardware/instance.h"

namespace nxdkit::hardware {

// A rollout bundle, per core: its weights and the KV cache.
struct RolloutUse {
  int64_t tp = 1;
  uint64_t weight_bytes = 0;  // of the largest rank's file
  // The cache: 2 * layers * batch * sequence * heads * head_dim * element bytes.
  int64_t layers = 0, batch = 0, sequence = 0, kv_heads_per_rank = 0, head_dim = 0;
  int64_t element_bytes = 2;

  uint64_t cache_bytes() const;
};

enum class Grows { kWithParallel, kWithMicroBatch, kWithCache };  // what it shrinks or grows with

struct MemoryRow {
  std::string what;  // "weights", "KV cache", ...
  uint64_t bytes = 0;
  Grows grows = Grows::kWithParallel;
};

// Everything that is kept of each trained parameter beside its bfloat16 weight.
enum class States {
  // NxD's mixed precision (the NxD Training configuration guide): a float32 gradient, two float32
  // moments and a float32 master weight.
  kMixed,
  kBf16,       // NxD's bf16SR: a gradient and two moments, all in bfloat16
  kBf16Kahan,  // EasyR1's adamw_bf16: the same, and a compensation of the weight
};
struct StateBytes {
  int64_t gradient = 0;
  int64_t optimizer = 0;
};
StateBytes BytesOf(States states);  // of one parameter

// Weights, gradients and states of so many parameters, the states cut over `optimizer_over` ranks.
uint64_t TrainedBytes(uint64_t elements, States states, int64_t optimizer_over);

// A step of NxD's training, per core; ZeRO-1 cuts the optimizer's states over the data parallel
// ranks.
struct TrainingUse {
  int64_t tp = 1, pp = 1;
  uint64_t rank_elements = 0;  // parameters of the largest rank
  int64_t nodes = 1;
  int64_t cores = 0;         // that train, of all that the nodes have; 0: all
  int64_t cores_beside = 0;  // taken by rollout
  bool zero1 = true;
  States states = States::kMixed;
  // A micro-batch: sequences of so many tokens, cut over `cp` context parallel ranks; sequence
  // parallel; selective recomputation, or of whole layers.
  int64_t micro_batch = 1, sequence = 0, cp = 1;
  int64_t scored = 0;  // sequences of a pass without gradients, where that takes more: its logits
  int64_t hidden = 0, layers = 0, vocab = 0;
  bool recompute = false;
  std::vector<MemoryRow> beside = {};  // what else these cores hold: a reference model, an engine
};

struct Fit {
  std::string instance;
  int64_t cores = 0;
  int64_t data_parallel = 1;  // or the engines that fit beside each other
  uint64_t core_bytes = 0;    // of device memory
  std::vector<MemoryRow> rows;
  std::string assumed;                // of training: what the rows hold for
  uint64_t reserve_bytes = 0;         // for scratch, code, collectives: a guess
  std::vector<std::string> problems;  // why it cannot run; empty: it fits
  std::vector<std::string> warnings;
  std::string smallest;  // the smallest instance on which it fits; "" for none of one node

  uint64_t used_bytes() const;  // the rows, without the reserve
};

Fit FitRollout(const Instance& instance, const RolloutUse& use);
Fit FitTraining(const Instance& instance, const TrainingUse& use);

// How its user says these sizes: "--tp", or the key of a configuration.
struct Levers {
  std::string_view parallel;     // tensor (and pipeline) parallel size
  std::string_view micro_batch;  // the tokens of a micro-batch
  std::string_view cache;        // batch and sequence length of the engine
};

// kFindings with every reason why it does not fit, and the smallest instance on which it does, else
// which of the levers moves most.
Status CheckFit(const Fit& fit, const Levers& levers);

std::string GibText(uint64_t bytes);  // "1.03 GiB", as device memory is sold

// "weights 1.03 GiB + KV cache 4.50 GiB = 5.53 GiB of 16 GiB a core (35 %)"
std::string FitText(const Fit& fit);

}  // namespace nxdkit::hardware
