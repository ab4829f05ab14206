// PRIVATE to trainer/engines. Requests as other programs take them: the samples of a prompt
// together, with a seed of one number.
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

// Requests [first, first + count): samples, one after the other, of one prompt, alike but for that.
struct RequestGroup {
  size_t first = 0;
  size_t count = 0;
};
// `most` samples in a group.
std::vector<RequestGroup> GroupRequests(std::span<const RolloutRequest> requests, int64_t most);

// Of this request's sample; the next sample's is one more, as vLLM counts. From (seed, step,
// prompt), which are 62 bits of Philox: two prompts never share one in practice. An engine of vLLM
// draws the same noise for equal seeds, whatever the prompt.
uint64_t SeedOf(const RolloutRequest& request);

// One sample as a program answers: {"token_ids": [..], "finish_reason": "stop" or "length"} and
// what `log_probs` holds. kCorrupt for another form, naming what is wrong.
Result<RolloutResponse> ReadSample(const Json& sample, std::vector<float> log_probs);

// Of a JSON array. kCorrupt for anything else in it.
Result<std::vector<float>> ReadFloats(const Json& array);
Result<std::vector<int32_t>> ReadIds(const Json& array);

// Holds what an engine answers for its parameters against what is predicted, and puts what was
// proved into `facts`. kFindings, naming the first parameter that is not as it should be.
Status ProveParameters(const OtherEngine& other, const std::map<std::string, std::string>& answered,
                       EngineFacts& facts);

}  // namespace nxdkit::trainer
