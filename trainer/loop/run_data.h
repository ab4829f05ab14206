// The questions of a run, and how its answers end, are read and judged: the loop knows nothing of
// files of data, tokenizers and programs that score.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/reward/reward.h"

namespace nxdkit::trainer {

struct Prompt {
  std::vector<int32_t> ids;
  std::string text;  // as the model sees it
  std::string ground_truth;
};

// Training prompts, without end: epoch after epoch.
class PromptFeed {
 public:
  virtual ~PromptFeed() = default;
  virtual Result<std::vector<Prompt>> Next(int64_t count) = 0;
  virtual std::string Position() const = 0;  // JSON
  virtual std::string Place() const = 0;     // the same for people: "epoch 1, row 96 of 1000"
  virtual Status Seek(const std::string& position) = 0;
};

// As Reward::Score. `bad` is set to the sample that an error is about, if it is about one.
using Scorer = std::function<Result<std::vector<Scores>>(std::span<const RewardSample> samples,
                                                         std::optional<size_t>& bad)>;

struct RunData {
  std::unique_ptr<PromptFeed> train;
  std::vector<Prompt> validation;
  Scorer score;
  Scorer score_validation;
  std::vector<int32_t> stop_tokens;
  std::function<std::string(std::span<const int32_t>)> decode;
};

}  // namespace nxdkit::trainer
