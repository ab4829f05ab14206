// PRIVATE to trainer/engines. What a vLLM server is asked to generate, and what it answers: token
// ids in, token ids and log-probabilities out (vLLM 0.32; FORMAT.md of formats/vllm has what was
// tried).
//
//   POST /inference/v1/generate   with --enable-scale-out: also which weights made each token
//   POST /v1/completions          everywhere; needs return_token_ids
//
// Every field that changes what is generated is said, since a server takes defaults from the
// model's generation_config.json. End tokens are ours: ignore_eos is always set, and stop_token_ids
// are what ends a response.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/engines/requests.h"

namespace nxdkit::trainer {

enum class VllmEndpoint { kTokens, kCompletions };
std::string_view PathOf(VllmEndpoint endpoint);

// `requests`: a group. At most `seq_len` tokens of prompt and response.
Json GenerateBody(VllmEndpoint endpoint, std::span<const RolloutRequest> requests, int64_t seq_len,
                  const std::string& request_id);

// One response for each of `requests`. `version`: what every token must have been made with, where
// the endpoint tells; "" is any. kCorrupt for an answer of another form or number, kFindings for
// tokens of other weights.
Result<std::vector<RolloutResponse>> ReadGenerated(VllmEndpoint endpoint, const Json& answer,
                                                   std::span<const RolloutRequest> requests,
                                                   const std::string& version);

}  // namespace nxdkit::trainer
