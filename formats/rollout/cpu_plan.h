// nxdkit-cpu-plan.json: the replacement of the compiled blob in a rollout bundle for the CPU.
// Static shapes, buckets and the layout of the KV cache: everything that an engine must allocate
// and check before it loads the shards. It contains no code. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit::rollout {

inline constexpr std::string_view kCpuPlanFile = "nxdkit-cpu-plan.json";

struct CpuPlan {
  std::string model_type;
  std::string config_digest;  // of config.json's bytes: "sha256:<hex>"
  std::string neuron_config_digest;
  int64_t tp = 1;
  int64_t batch_size = 1;
  int64_t context_batch_size = 1;  // prompts are read one at a time when sequences come and go
  int64_t sequence_length = 128;
  std::string dtype;  // "bfloat16"
  bool fused_qkv = false;
  models::GqaStrategy gqa = models::GqaStrategy::kReplicateToTpDegree;
  int64_t layers = 0;
  int64_t head_dim = 0;
  int64_t query_slots = 0;                  // per rank, padding included
  int64_t kv_slots = 0;                     //
  std::vector<int64_t> prompt_buckets;      // tokens of one pass over a prompt, ascending
  std::vector<int64_t> generation_buckets;  // tokens in the cache, ascending
  uint64_t kv_cache_bytes = 0;              // per rank, all layers, keys and values

  bool operator==(const CpuPlan&) const = default;
};

// NxDI's automatic buckets: powers of two from `least` on, then `most`.
std::vector<int64_t> MakeBuckets(int64_t least, int64_t most);

// Derives the plan. kLimit when a cache of these shapes has more than 2^63 bytes, kUnsupported for
// an unknown element type.
Result<CpuPlan> MakeCpuPlan(const models::ModelConfig& model, std::string_view config_text,
                            const NeuronConfig& neuron, std::string_view neuron_text);

// The file: sorted keys, indent 2, a line feed at the end.
std::string WriteCpuPlan(const CpuPlan& plan);

// kCorrupt naming the key, found and expected; kUnsupported for a later version. Fields that follow
// from others (the shape and bytes of the cache) must agree with them.
Result<CpuPlan> ParseCpuPlan(std::string_view json_text, const std::string& path);

}  // namespace nxdkit::rollout
