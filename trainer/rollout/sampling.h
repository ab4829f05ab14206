// The requests and responses of a rollout. Plain data; the worker protocol carries it.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/base/rng.h"

namespace nxdkit::trainer {

inline constexpr float kMinTemperature = 1e-3f;  // smallest temperature other than 0

struct SamplingParams {
  float temperature = 1;  // 0: greedy, the lowest id among equal ones
  int64_t top_k = -1;     // -1 and 0: off
  float top_p = 1;        // of the mass after top_k; the most likely token always stays
  bool log_probs = false;
  bool ignore_eos = false;
  int64_t max_tokens = 1;
  std::vector<int32_t> stop_tokens{};  // a set; the one that ends a response is included in it
  bool operator==(const SamplingParams&) const = default;
};

// A request for one response. Its draws depend only on seed, step, prompt, sample and the position
// in the response: not on the worker, the slot, the other requests or their order.
struct RolloutRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  uint64_t seed = 1;
  uint32_t step = 0;
  uint32_t prompt_index = 0;
  uint32_t sample_index = 0;
};

enum class FinishReason : uint8_t { kStop, kLength };

struct RolloutResponse {
  std::vector<int32_t> ids;  // the stop token included; never padded
  // With SamplingParams::log_probs, as long as ids: log-probabilities over the whole vocabulary
  // from logits / temperature (/ 1 when greedy), before top_k and top_p, as the actor computes
  // them.
  std::vector<float> log_probs;
  FinishReason reason = FinishReason::kLength;
  bool operator==(const RolloutResponse&) const = default;
};

}  // namespace nxdkit::trainer
