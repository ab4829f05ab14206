// The parts of a run that the training loop is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "lib/system/folder_lock.h"
#include "trainer/learner/critic_model.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/loop/attempt.h"
#include "trainer/loop/text_files.h"
#include "trainer/model/decoder_config.h"
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

// The questions of a run, and how its answers end, are read and judged: the loop knows nothing of
// files of data, tokenizers and programs that score.
struct RunData {
  std::unique_ptr<PromptFeed> train;
  std::vector<Prompt> validation;
  Scorer score;
  Scorer score_validation;
  std::vector<int32_t> stop_tokens;
  std::function<std::string(std::span<const int32_t>)> decode;
};

// The models of a run: what it begins with, and what it trains.
struct RunModels {
  std::unique_ptr<const DecoderConfig> config;
  artifact::BoundArtifact base;  // the model that the run begins with
  std::unique_ptr<MeshModel> actor;
  std::unique_ptr<MeshModel> reference;  // nullptr: no KL
  // The model that the critic begins with, and the critic; nullptr: the advantages need none.
  std::unique_ptr<const CriticModel> critic_model;
  std::unique_ptr<MeshModel> critic;
};

// The books of a run: whose it is, how long it is, and what its checkpoints say beside the weights.
struct RunRecord {
  bool continues = false;          // from a checkpoint of its own
  int64_t continues_from = 0;      // its step
  std::optional<FolderLock> lock;  // of the run's folder
  std::optional<Attempt> attempt;  // at the run; nullopt: nobody else can be at it
  int64_t training_steps = 0;
  TextFiles text_files;
  std::string template_date;  // that the chat template prints; "" where it prints none
};

}  // namespace nxdkit::trainer
