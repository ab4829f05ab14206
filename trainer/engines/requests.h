// PRIVATE to trainer/engines. Requests in the form of other programs: all samples of a prompt
// together, with a single number as seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// Requests [first, first + count): consecutive samples of one prompt, otherwise equal.
struct RequestGroup {
  size_t first = 0;
  size_t count = 0;
};
// Groups of at most `most` samples.
std::vector<RequestGroup> GroupRequests(std::span<const RolloutRequest> requests, int64_t most);

// The seed of this request's sample; the next sample's is one more, as vLLM counts. Made from
// (seed, step, prompt) as 62 bits of Philox: two prompts never share one in practice. An engine of
// vLLM draws the same noise for equal seeds, whatever the prompt.
uint64_t SeedOf(const RolloutRequest& request);

// One sample of a program's answer: {"token_ids": [..], "finish_reason": "stop" or "length"} and
// the values in `log_probs`. kCorrupt for another form, naming the fault.
Result<RolloutResponse> ReadSample(const Json& sample, std::vector<float> log_probs);

// The numbers of a JSON array. kCorrupt for any other element.
Result<std::vector<float>> ReadFloats(const Json& array);
Result<std::vector<int32_t>> ReadIds(const Json& array);

// Compares the engine's report on its parameters with the prediction, and adds what was proved to
// `facts`. kFindings, naming the first parameter that differs.
Status ProveParameters(const OtherEngine& other, const std::map<std::string, std::string>& answered,
                       EngineFacts& facts);

}  // namespace nxdkit::trainer
