// The parts of a run, as given to the training loop.
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
  virtual std::string Place() const = 0;     // for people: "epoch 1, row 96 of 1000"
  virtual Status Seek(const std::string& position) = 0;
};

// As Reward::Score. `bad` is set to the sample that an error is about, if there is one.
using Scorer = std::function<Result<std::vector<Scores>>(std::span<const RewardSample> samples,
                                                         std::optional<size_t>& bad)>;

// The reading and judging of a run's prompts and responses: the loop knows nothing of data files,
// tokenizers and scoring programs.
struct RunData {
  std::unique_ptr<PromptFeed> train;
  std::vector<Prompt> validation;
  Scorer score;
  Scorer score_validation;
  std::vector<int32_t> stop_tokens;
  std::function<std::string(std::span<const int32_t>)> decode;
};

// The models of a run: the initial one, and those that are trained.
struct RunModels {
  std::unique_ptr<const DecoderConfig> config;
  artifact::BoundArtifact base;  // the model that the run begins with
  std::unique_ptr<MeshModel> actor;
  std::unique_ptr<MeshModel> reference;  // nullptr: no KL
  // The critic's initial model, and the critic; nullptr: the advantages need none.
  std::unique_ptr<const CriticModel> critic_model;
  std::unique_ptr<MeshModel> critic;
};

// The records of a run: its lock and attempt, its length, and the state that its checkpoints store
// next to the weights.
struct RunRecord {
  bool continues = false;          // from one of its own checkpoints
  int64_t continues_from = 0;      // its step
  std::optional<FolderLock> lock;  // on the run's folder
  std::optional<Attempt> attempt;  // of the run; nullopt: no other process can run it
  int64_t training_steps = 0;
  TextFiles text_files;
  std::string template_date;  // printed by the chat template; "" if it prints none
};

}  // namespace nxdkit::trainer
