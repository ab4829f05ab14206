// What a run is put together from: the loop knows nothing of files of data, tokenizers, processes
// or programs that score.
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
#include "trainer/loop/weight_sync.h"
#include "trainer/model/decoder_config.h"
#include "trainer/reward/reward.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

class Deliveries;

// How much of the phase under way is done: responses, scores, rows. Called from any thread.
using ProgressHook = std::function<void(int64_t done, int64_t units)>;

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

// The rollout engines behind one interface.
class Generator {
 public:
  virtual ~Generator() = default;
  // New weights are there: engines are destroyed, made again and loaded, or take them where they
  // can; they must find these weights.
  virtual Result<EngineFacts> Reload(const SyncedWeights& weights) = 0;
  virtual Result<std::vector<RolloutResponse>> Generate(
      std::span<const RolloutRequest> requests) = 0;
  // Workers that had to be started again so far.
  virtual int64_t restarts() const { return 0; }
};

// As Reward::Score. `bad` is set to the sample that an error is about, if it is about one.
using Scorer = std::function<Result<std::vector<Scores>>(std::span<const RewardSample> samples,
                                                         std::optional<size_t>& bad)>;

struct RunParts {
  std::optional<FolderLock> lock;  // of the run's folder
  std::optional<Attempt> attempt;  // at the run; nullopt: nobody else can be at it
  std::unique_ptr<const DecoderConfig> config;
  ops::BoundArtifact base;  // the model that the run begins with
  std::unique_ptr<MeshModel> actor;
  std::unique_ptr<MeshModel> reference;  // nullptr: no KL
  // What the critic begins with, and the critic; nullptr: the advantages need none.
  std::unique_ptr<const CriticModel> critic_model;
  std::unique_ptr<MeshModel> critic;
  std::shared_ptr<Deliveries> deliveries;  // nullptr: no machine needs any
  SyncTarget sync;
  std::unique_ptr<Generator> generator;
  bool generator_log_probs = true;  // whether it tells those of the tokens that it samples
  std::unique_ptr<PromptFeed> train;
  std::vector<Prompt> validation;
  Scorer score;
  Scorer score_validation;
  std::function<std::string(std::span<const int32_t>)> decode;
  std::vector<int32_t> stop_tokens;
  TextFiles text_files;
  std::string template_date;  // that the chat template prints; "" where it prints none
  int64_t training_steps = 0;
};

}  // namespace nxdkit::trainer
