// PRIVATE to trainer/engines. Requests to a vLLM server and its answers: token ids in, token ids
// and log-probabilities out (vLLM 0.32; formats/vllm/FORMAT.md lists the versions and settings
// tried).
//
//   POST /inference/v1/generate   with --enable-scale-out: also which weights made each token
//   POST /v1/completions          everywhere; needs return_token_ids
//
// Every field that affects generation is set, since a server takes defaults from the model's
// generation_config.json. End tokens are ours: ignore_eos is always set, and stop_token_ids end a
// response.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/engines/requests.h"

namespace nxdkit::trainer {

enum class VllmEndpoint { kTokens, kCompletions };
std::string_view PathOf(VllmEndpoint endpoint);

// `requests`: a group. At most `seq_len` tokens of prompt and response together.
Json GenerateBody(VllmEndpoint endpoint, std::span<const RolloutRequest> requests, int64_t seq_len,
                  const std::string& request_id);

// One response for each of `requests`. `version`: the weights that must have made every token, if
// the endpoint reports it; "" is any. kCorrupt for an answer of another form or number, kFindings
// for tokens of other weights.
Result<std::vector<RolloutResponse>> ReadGenerated(VllmEndpoint endpoint, const Json& answer,
                                                   std::span<const RolloutRequest> requests,
                                                   const std::string& version);

}  // namespace nxdkit::trainer
