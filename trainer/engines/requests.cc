#include "trainer/engines/requests.h"

#include <limits>
#include <utility>

#include "formats/ops/digest/engine_check.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/base/rng.h"

namespace nxdkit::trainer {
namespace {

bool IsNextSample(const RolloutRequest& before, const RolloutRequest& request) {
  return request.sample_index == before.sample_index + 1 && request.seed == before.seed &&
         request.step == before.step && request.prompt_index == before.prompt_index &&
         request.sampling == before.sampling && request.prompt == before.prompt;
}

}  // namespace

std::vector<RequestGroup> GroupRequests(std::span<const RolloutRequest> requests, int64_t most) {
  std::vector<RequestGroup> groups;
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool room = !groups.empty() && groups.back().count < static_cast<size_t>(most);
    if (room && IsNextSample(requests[i - 1], requests[i]))
      ++groups.back().count;
    else
      groups.push_back({i, 1});
  }
  return groups;
}

uint64_t SeedOf(const RolloutRequest& request) {
  const PhiloxCounter words = Philox({request.step, request.prompt_index, 0, 0},
                                     MakeKey(request.seed, RandomUse::kSampling));
  return ((uint64_t{words[0]} << 32 | words[1]) >> 2) + request.sample_index;
}

Result<std::vector<int32_t>> ReadIds(const Json& array) {
  if (!array.is_array()) return Corrupt("token ids are {}", JsonTypeText(array));
  std::vector<int32_t> ids;
  for (const Json& id : array) {
    const bool fits = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                      id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return Corrupt("a token id is {}", JsonExcerpt(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<std::vector<float>> ReadFloats(const Json& array) {
  if (!array.is_array()) return Corrupt("log-probabilities are {}", JsonTypeText(array));
  std::vector<float> numbers;
  for (const Json& number : array) {
    if (!number.is_number()) return Corrupt("a log-probability is {}", JsonExcerpt(number));
    numbers.push_back(number.get<float>());
  }
  return numbers;
}

Result<RolloutResponse> ReadSample(const Json& sample, std::vector<float> log_probs) {
  const Json* ids = JsonFind(sample, "token_ids");
  if (!ids || ids->is_null()) return Corrupt("a sample has no token_ids");
  RolloutResponse response;
  NXDKIT_ASSIGN(response.ids, ReadIds(*ids));
  response.log_probs = std::move(log_probs);
  NXDKIT_ASSIGN(const std::string reason, JsonString(sample, "finish_reason"));
  if (reason != "stop" && reason != "length")
    return Corrupt("a sample ended with \"{}\", expected stop or length", EscapeControl(reason));
  response.reason = reason == "stop" ? FinishReason::kStop : FinishReason::kLength;
  return response;
}

Status ProveParameters(const OtherEngine& other, const std::map<std::string, std::string>& answered,
                       EngineFacts& facts) {
  const ops::EngineComparison found = ops::CompareEngine(other.parameters, answered);
  if (found.findings.empty() && found.compared == 0)
    return Error(Errc::kFindings, "the engine shows no parameter's bytes");
  if (!found.findings.empty()) {
    const std::string more =
        found.findings.size() == 1 ? "" : fmt::format(", and {} more", found.findings.size() - 1);
    return Error(Errc::kFindings, "stale weights: " + found.findings[0].ToString() + more)
        .hint("the engine is not resumed; ckpt-verify --engine names every parameter");
  }
  facts.proved = static_cast<int64_t>(found.compared);
  facts.not_covered = static_cast<int64_t>(found.not_covered);
  return OkStatus();
}

}  // namespace nxdkit::trainer
