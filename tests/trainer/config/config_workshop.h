// Small helpers of the configuration tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/expect_error.h"
#include "trainer/config/check.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer::test {

inline Result<LoadedConfig> Try(const std::string& yaml,
                                const std::vector<std::string>& overrides = {}) {
  return LoadConfigText(yaml, "run.yaml", overrides);
}

// A default Config when it cannot be loaded, with a failure.
inline LoadedConfig Load(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  Result<LoadedConfig> loaded = LoadConfigText(yaml, "run.yaml", overrides);
  if (loaded.ok()) return std::move(loaded).value();
  ADD_FAILURE() << loaded.error().ToString();
  return {};
}

// Satisfies every rule: 4 cores, 8 prompts x 4 responses.
inline const std::string kGoodConfig = R"(
data: {rollout_batch_size: 8, max_prompt_length: 64, max_response_length: 64}
worker:
  actor: {global_batch_size: 4, micro_batch_size_per_device_for_update: 2, tensor_parallel_size: 2,
          micro_batch_size_per_device_for_experience: 4}
  rollout: {n: 4, tensor_parallel_size: 1}
  reward: {reward_function: math}
trainer: {cores: 4}
)";

inline ConfigCheck Check(const std::vector<std::string>& overrides) {
  return CheckConfig(Load(kGoodConfig, overrides), {.files = false});
}

inline std::vector<std::string> Keys(const ConfigCheck& check) {
  std::vector<std::string> keys;
  for (const ConfigProblem& problem : check.problems) keys.push_back(problem.key);
  return keys;
}

}  // namespace nxdkit::trainer::test
