#include "trainer/engines/vllm_messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

// The fields with the same names at both endpoints.
Json SamplingFields(const RolloutRequest& first, size_t samples, int64_t seq_len) {
  const SamplingParams& sampling = first.sampling;
  const int64_t most = std::min(sampling.max_tokens, seq_len - std::ssize(first.prompt));
  return {{"n", samples},
          {"temperature", sampling.temperature},
          {"top_p", sampling.top_p},
          {"top_k", sampling.top_k > 0 ? sampling.top_k : -1},
          {"min_p", 0.0},
          {"seed", SeedOf(first)},
          {"max_tokens", most},
          {"min_tokens", 0},
          {"presence_penalty", 0.0},
          {"frequency_penalty", 0.0},
          {"repetition_penalty", 1.0},
          {"logprobs", sampling.log_probs ? Json(0) : Json()},
          {"prompt_logprobs", nullptr},
          {"stop_token_ids", sampling.ignore_eos ? Json::array() : Json(sampling.stop_tokens)},
          {"ignore_eos", true}};
}

// {"content": [{"token_id": 5, "logprob": -0.5}, ..]}
Result<std::vector<float>> LogProbsOfContent(const Json& choice) {
  NXDKIT_ASSIGN(const Json* logprobs, JsonObject(choice, "logprobs"));
  NXDKIT_ASSIGN(const Json* content, JsonArray(*logprobs, "content"));
  Json numbers = Json::array(), ids = Json::array();
  for (const Json& token : *content) {
    const Json* number = JsonFind(token, "logprob");
    const Json* id = JsonFind(token, "token_id");
    if (!number || !id) return Corrupt("a log-probability is {}", JsonExcerpt(token));
    numbers.push_back(*number);
    ids.push_back(*id);
  }
  const Json* said = JsonFind(choice, "token_ids");
  if (!said || ids != *said) return Corrupt("the log-probabilities are of other tokens");
  return ReadFloats(numbers);
}

// {"token_logprobs": [-0.5, ..]}
Result<std::vector<float>> LogProbsOfTokens(const Json& choice) {
  NXDKIT_ASSIGN(const Json* logprobs, JsonObject(choice, "logprobs"));
  NXDKIT_ASSIGN(const Json* numbers, JsonArray(*logprobs, "token_logprobs"));
  return ReadFloats(*numbers);
}

// [{"version": "step 1", "start": 0, "end": 12}, ..]
Status CheckVersions(const Json& choice, const std::string& version) {
  if (version.empty()) return OkStatus();
  const Json* versions = JsonFind(choice, "weight_versions");
  if (!versions || versions->is_null()) return OkStatus();  // it does not report them
  if (!versions->is_array()) return Corrupt("weight_versions are {}", JsonTypeText(*versions));
  for (const Json& span : *versions) {
    NXDKIT_ASSIGN(const std::string made, JsonString(span, "version"));
    if (made != version)
      return Error(
          Errc::kFindings,
          fmt::format("stale weights: tokens were made with version \"{}\", expected \"{}\"",
                      EscapeControl(made), version));
  }
  return OkStatus();
}

}  // namespace

std::string_view PathOf(VllmEndpoint endpoint) {
  return endpoint == VllmEndpoint::kTokens ? "/inference/v1/generate" : "/v1/completions";
}

Json GenerateBody(VllmEndpoint endpoint, std::span<const RolloutRequest> requests, int64_t seq_len,
                  const std::string& request_id) {
  Json sampling = SamplingFields(requests[0], requests.size(), seq_len);
  if (endpoint == VllmEndpoint::kTokens) {
    sampling["detokenize"] = false;
    return {{"request_id", request_id},
            {"token_ids", requests[0].prompt},
            {"return_token_ids", false},
            {"stream", false},
            {"sampling_params", std::move(sampling)}};
  }
  sampling["request_id"] = request_id;
  sampling["prompt"] = requests[0].prompt;
  sampling["stream"] = false;
  sampling["echo"] = false;
  sampling["return_token_ids"] = true;
  sampling["return_tokens_as_token_ids"] = true;
  return sampling;
}

Result<std::vector<RolloutResponse>> ReadGenerated(VllmEndpoint endpoint, const Json& answer,
                                                   std::span<const RolloutRequest> requests,
                                                   const std::string& version) {
  NXDKIT_ASSIGN(const Json* choices, JsonArray(answer, "choices"));
  if (choices->size() != requests.size())
    return Corrupt("{} samples, {} were asked for", choices->size(), requests.size());
  std::vector<std::optional<RolloutResponse>> found(requests.size());
  for (const Json& choice : *choices) {
    NXDKIT_ASSIGN(const int64_t index, JsonInt(choice, "index"));
    if (index < 0 || index >= std::ssize(found) || found[static_cast<size_t>(index)])
      return Corrupt("a sample has the index {}", index);
    std::vector<float> log_probs;
    if (requests[0].sampling.log_probs) {
      NXDKIT_ASSIGN(log_probs, endpoint == VllmEndpoint::kTokens ? LogProbsOfContent(choice)
                                                                 : LogProbsOfTokens(choice));
    }
    NXDKIT_TRY(CheckVersions(choice, version));
    NXDKIT_ASSIGN(found[static_cast<size_t>(index)], ReadSample(choice, std::move(log_probs)));
  }
  std::vector<RolloutResponse> out;
  for (auto& response : found) out.push_back(*std::move(response));
  return out;
}

}  // namespace nxdkit::trainer
