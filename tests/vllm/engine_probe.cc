// Our own engine, greedy, for tests/vllm/run.py: engine_probe BUNDLE, one JSON object a line:
//   {"token_ids": [5, 6], "max_tokens": 8} -> {"token_ids": [..], "logprobs": [..]}
#include <cstdio>
#include <iostream>

#include "lib/json/json.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {
namespace {

Result<std::vector<RolloutResponse>> Answer(const std::string& bundle) {
  NXDKIT_ASSIGN(Engine engine, Engine::Load({.bundle = bundle}));
  std::vector<RolloutRequest> requests;
  for (std::string line; std::getline(std::cin, line);) {
    const Json json = Json::parse(line);
    RolloutRequest& request = requests.emplace_back();
    request.prompt = json["token_ids"].get<std::vector<int32_t>>();
    request.sampling = {.temperature = 0, .log_probs = true, .max_tokens = json["max_tokens"]};
  }
  NXDKIT_ASSIGN(Generated generated, engine.Generate(requests));
  return std::move(generated.responses);
}

}  // namespace
}  // namespace nxdkit::trainer

int main(int count, char** words) {
  if (count != 2) return 2;
  const auto responses = nxdkit::trainer::Answer(words[1]);
  if (!responses.ok()) {
    std::fprintf(stderr, "%s\n", responses.error().ToString().c_str());
    return 1;
  }
  for (const auto& response : *responses) {
    const nxdkit::Json json = {{"token_ids", response.ids}, {"logprobs", response.log_probs}};
    std::printf("%s\n", json.dump().c_str());
  }
}
