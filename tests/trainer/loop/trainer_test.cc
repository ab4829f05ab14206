// The whole loop on a toy task: the response that repeats the prompt's last token is right.
#include "trainer/loop/trainer.h"
#include "formats/kinds/open.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "formats/kinds/open.h"
#include "formats/ops/export/export.h"
#include "formats/torch/archive.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/config/load.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/generators.h"

namespace nxdkit::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ToyFeed : public PromptFeed {
 public:
  Result<std::vector<Prompt>> Next(int64_t count) override {
    std::vector<Prompt> prompts;
    for (int64_t i = 0; i < count; ++i, ++position_) {
      const int32_t token = static_cast<int32_t>(position_ * 5 % 7) + 10;
      prompts.push_back({{3, token}, std::to_string(token), std::to_string(token)});
    }
    return prompts;
  }
  std::string Position() const override { return Json(position_).dump(); }
  std::string Place() const override { return "prompt " + std::to_string(position_); }
  Status Seek(const std::string& position) override {
    position_ = Json::parse(position).get<int64_t>();
    return OkStatus();
  }

 private:
  int64_t position_ = 0;
};

class Loop : public ::testing::Test {
 protected:
  Config Configure(const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"data.rollout_batch_size=8",
                                    "data.max_prompt_length=4",
                                    "data.max_response_length=2",
                                    "data.train_files=x",
                                    "worker.actor.global_batch_size=8",
                                    "worker.actor.micro_batch_size_per_device_for_update=4",
                                    "worker.actor.micro_batch_size_per_device_for_experience=4",
                                    "worker.actor.tensor_parallel_size=2",
                                    "worker.actor.optim.lr=0.01",
                                    "worker.rollout.n=4",
                                    "worker.rollout.tensor_parallel_size=2",
                                    "algorithm.disable_kl=true",
                                    "trainer.cores=2",
                                    "trainer.n_gpus_per_node=2",
                                    "trainer.val_before_train=false",
                                    "trainer.save_checkpoint_path=" + folder_.Path("run")};
    all.insert(all.end(), overrides.begin(), overrides.end());
    auto loaded = LoadConfig("", all);
    EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
    return loaded->config;
  }

  std::string MakeBundle(const std::string& name) const {
    ops::ExportRequest request;
    request.convert.input = lab_.path();
    request.convert.to = &ops::kRollout;
    request.convert.output = folder_.Path(name);
    request.convert.options.Set("tp", 2);
    request.convert.options.Set("bs", 8);
    request.convert.options.Set("seq", 16);
    request.convert.options.dtype = Dtype::kF32;
    request.convert.sync = false;
    request.convert.force = true;
    request.cpu = true;
    const auto report = ops::Export(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return request.convert.output;
  }

  RunParts MakeParts(const Config& config, int64_t steps) const {
    RunParts parts;
    parts.models.config = std::make_unique<const DecoderConfig>(lab_.config());
    auto base = ops::OpenAndBind(lab_.path(), &ops::kHf, {});
    EXPECT_TRUE(base.ok());
    parts.models.base = *std::move(base);
    MeshOptions options;
    options.tp = 2;
    options.update.max_tokens = options.experience.max_tokens = 100;
    parts.engines.sync.bundle = MakeBundle("bundle");
    auto actor = MeshModel::Make(*parts.models.config, options, parts.models.base);
    EXPECT_TRUE(actor.ok());
    parts.models.actor = *std::move(actor);
    if (NeedsCritic(config)) {
      auto critic_base = ops::OpenAndBind(lab_.path(), &ops::kHf, {});
      EXPECT_TRUE(critic_base.ok());
      auto model = MakeCriticModel(*std::move(critic_base), 1);
      EXPECT_TRUE(model.ok());
      parts.models.critic_model = std::make_unique<const CriticModel>(*std::move(model));
      auto critic = MeshModel::Make(parts.models.critic_model->config, options,
                                    parts.models.critic_model->source);
      EXPECT_TRUE(critic.ok());
      parts.models.critic = *std::move(critic);
    }
    if (!config.algorithm.disable_kl) {
      options.decoder.trainable = false;
      auto reference = MeshModel::Make(*parts.models.config, options, parts.models.base);
      EXPECT_TRUE(reference.ok());
      parts.models.reference = *std::move(reference);
    }
    parts.engines.generator = MakeEngineGenerator({.bundle = parts.engines.sync.bundle}, nullptr);
    parts.data.train = std::make_unique<ToyFeed>();
    parts.data.validation = {{{3, 11}, "11", "11"}, {{3, 12}, "12", "12"}};
    parts.data.decode = [](std::span<const int32_t> ids) { return std::to_string(ids[0]); };
    parts.data.score = [](std::span<const RewardSample> responses,
                          std::optional<size_t>&) -> Result<std::vector<Scores>> {
      std::vector<Scores> scores;
      for (const RewardSample& response : responses)
        scores.push_back({{"overall", response.response == response.ground_truth ? 1.0 : 0.0},
                          {"length", static_cast<double>(response.tokens)}});
      return scores;
    };
    parts.data.score_validation = parts.data.score;
    parts.data.stop_tokens = {0};
    parts.record.training_steps = steps;
    return parts;
  }

  // The metrics of every step.
  std::map<int64_t, std::map<std::string, double>> Run(const Config& config, int64_t steps) {
    std::map<int64_t, std::map<std::string, double>> metrics;
    TrainHooks hooks;
    hooks.step = [&](int64_t step, int64_t, const MetricRecord& record) {
      for (const auto& [name, value] : record) metrics[step][name] = value;
    };
    hooks.note = [&](const std::string& line) { notes_.push_back(line); };
    const RunPlan plan = MakeRunPlan(config);
    const auto result = Train({config, plan, hooks}, MakeParts(config, steps), "{}");
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return metrics;
  }

  const ModelLab lab_{testing_util::TinyQwen3()};
  const testing_util::Scratch folder_;
  std::vector<std::string> notes_;
  bool stop_ = false;
};

TEST_F(Loop, LearnsAndTellsWhatItDoes) {
  const Config config =
      Configure({"trainer.val_freq=20", "worker.rollout.n=16", "worker.actor.optim.lr=0.003"});
  const auto metrics = Run(config, 160);
  ASSERT_EQ(metrics.size(), 160u);
  double early = 0, late = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    early += metrics.at(step).at("reward/overall") / 5;
    late += metrics.at(161 - step).at("reward/overall") / 5;
  }
  EXPECT_LT(early, 0.2);
  EXPECT_GT(late, early + 0.5);
  for (const auto& [step, record] : metrics) {
    // One update with all samples: the policy that sampled is the one that is updated.
    EXPECT_NEAR(record.at("actor/ppo_kl"), 0, 1e-5) << step;
    EXPECT_EQ(record.at("actor/pg_clipfrac_higher"), 0) << step;
    EXPECT_LT(record.at("rollout/log_prob_gap_max"), 1e-3) << step;
    for (const char* name : {"actor/pg_loss", "actor/grad_norm", "actor/lr", "critic/score/mean",
                             "response_length/mean", "timing_s/gen", "timing_s/step",
                             "perf/throughput", "global_seqlen/mean", "reward/length"})
      EXPECT_TRUE(record.contains(name)) << name;
  }
  EXPECT_TRUE(metrics.at(20).contains("val/reward_score"));
  EXPECT_TRUE(fs::exists(folder_.Path("run/global_step_160/actor/optim")));
  EXPECT_TRUE(fs::exists(folder_.Path("run/experiment_log.jsonl")));
}

// All kinds of state: adaptive KL, prompts dropped by filtering, a schedule, noise in the rounding.
TEST_F(Loop, ResumesBitForBit) {
  const std::vector<std::string> options = {"trainer.save_freq=2",
                                            "algorithm.disable_kl=false",
                                            "algorithm.kl_type=adaptive",
                                            "algorithm.kl_coef=0.1",
                                            "algorithm.online_filtering=true",
                                            "algorithm.filter_low=-1",
                                            "algorithm.filter_high=0.2",
                                            "worker.actor.optim.lr_warmup_steps=3",
                                            "trainer.val_freq=2"};
  const auto whole = Run(Configure(options), 5);
  fs::rename(folder_.Path("run"), folder_.Path("whole"));
  Run(Configure(options), 3);
  const auto rest = Run(Configure(options), 5);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_THAT(notes_,
              Contains(ContainsRegex(
                  "step 3 of 5, learning rate 0.01, data at prompt [0-9]+, [0-9]+ prompts seen, "
                  "KL coefficient 0.0[0-9]+, best")));
  for (int64_t step : {4, 5})
    for (const auto& [name, value] : whole.at(step)) {
      if (name.starts_with("timing") || name.starts_with("perf/") || name == "sync/serial")
        continue;
      EXPECT_EQ(rest.at(step).at(name), value) << step << " " << name;
    }
}

// The current step is lost, the earlier ones are not, though no checkpoint was due.
TEST_F(Loop, AnInterruptedRunSavesItsLastWholeStep) {
  const Config config = Configure({});
  const auto whole = Run(config, 6);
  for (const char* phase : {"sync", "gen", "reward", "adv", "update_actor"}) {
    SCOPED_TRACE(phase);
    fs::remove_all(folder_.Path("run"));
    bool stop = false;
    TrainHooks hooks;
    hooks.phase = [&](int64_t step, int64_t, const std::string& begun) {
      stop = stop || (step == 4 && begun == phase);
    };
    hooks.poll = [&]() -> Status {
      return stop ? Status(Error(Errc::kInterrupted, "enough")) : OkStatus();
    };
    hooks.note = [&](const std::string& line) { notes_.push_back(line); };
    const auto result = Train({config, MakeRunPlan(config), hooks}, MakeParts(config, 6), "{}");
    ASSERT_FALSE(result.ok());
    ASSERT_EQ(result.error().code(), Errc::kInterrupted) << result.error().ToString();
    // An update that has begun is finished first.
    const int64_t saved = std::string_view(phase) == "update_actor" ? 4 : 3;
    EXPECT_EQ(notes_.back(),
              "step " + std::to_string(saved) + " is saved: the same command continues from it");
    const auto rest = Run(config, 6);
    ASSERT_EQ(rest.size(), static_cast<size_t>(6 - saved));
    for (const char* name : {"actor/grad_norm", "reward/overall", "actor/entropy"})
      EXPECT_EQ(rest.at(6).at(name), whole.at(6).at(name)) << name;
  }
}

// The promise of the last note, for each way of starting.
TEST_F(Loop, TheSameCommandGoesOnFromWhatAnInterruptedRunSaved) {
  const auto whole = Run(Configure({}), 8);
  fs::rename(folder_.Path("run"), folder_.Path("whole"));
  Run(Configure({"trainer.save_freq=2"}), 4);
  fs::rename(folder_.Path("run"), folder_.Path("other"));
  const std::vector<std::vector<std::string>> ways = {
      {"trainer.load_checkpoint_path=" + folder_.Path("other/global_step_2")},
      {"trainer.save_model_only=true", "trainer.save_freq=1"},
      {"trainer.save_model_only=true"},
  };
  for (const std::vector<std::string>& words : ways) {
    SCOPED_TRACE(words.front());
    fs::remove_all(folder_.Path("run"));
    const Config config = Configure(words);
    int64_t last = 0;
    for (const int64_t stop_at : {4, 6}) {
      TrainHooks hooks;
      int64_t current = 0;
      hooks.phase = [&](int64_t step, int64_t, const std::string&) { current = step; };
      hooks.poll = [&]() -> Status {
        return current > stop_at ? Status(Error(Errc::kInterrupted, "enough")) : OkStatus();
      };
      hooks.note = [&](const std::string& line) { notes_.push_back(line); };
      const auto result = Train({config, MakeRunPlan(config), hooks}, MakeParts(config, 8), "{}");
      ASSERT_FALSE(result.ok());
      ASSERT_EQ(result.error().code(), Errc::kInterrupted) << result.error().ToString();
      EXPECT_EQ(notes_.back(),
                fmt::format("step {} is saved: the same command continues from it", stop_at));
      last = stop_at;
    }
    const auto rest = Run(config, 8);
    ASSERT_EQ(rest.size(), static_cast<size_t>(8 - last));
    for (const char* name : {"actor/grad_norm", "reward/overall", "actor/entropy"})
      EXPECT_EQ(rest.at(8).at(name), whole.at(8).at(name)) << name;
    const auto log = ReadSmallFile(folder_.Path("run/experiment_log.jsonl"), 1 << 20);
    ASSERT_TRUE(log.ok());
    for (const int64_t step : {3, 5, 8})
      EXPECT_THAT(*log, HasSubstr(fmt::format("{{\"step\": {},", step)));
  }
}

TEST_F(Loop, ARunIsNotBegunOverAnother) {
  Run(Configure({}), 2);
  const auto log = ReadSmallFile(folder_.Path("run/experiment_log.jsonl"), 1 << 20);
  const Config config = Configure({"trainer.find_last_checkpoint=false"});
  const auto refused = Train({config, MakeRunPlan(config), {}}, MakeParts(config, 2), "{}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kUsage);
  EXPECT_THAT(refused.error().hint(), HasSubstr("trainer.find_last_checkpoint=true"));
  EXPECT_EQ(*ReadSmallFile(folder_.Path("run/experiment_log.jsonl"), 1 << 20), *log);
  // In a folder of its own the note says how to continue.
  fs::remove_all(folder_.Path("run"));
  TrainHooks hooks;
  hooks.step = [&](int64_t, int64_t, const MetricRecord&) { stop_ = true; };
  hooks.poll = [&]() -> Status {
    return stop_ ? Status(Error(Errc::kInterrupted, "enough")) : OkStatus();
  };
  hooks.note = [&](const std::string& line) { notes_.push_back(line); };
  EXPECT_FALSE(Train({config, MakeRunPlan(config), hooks}, MakeParts(config, 6), "{}").ok());
  EXPECT_EQ(
      notes_.back(),
      "step 1 is saved: the command with trainer.find_last_checkpoint=true continues from it");
}

// "Best" is an existing checkpoint.
TEST_F(Loop, TheTrackerOfANewFolderNamesNoStepOfAnother) {
  Run(Configure({"trainer.save_freq=2", "trainer.val_freq=2"}), 2);
  fs::rename(folder_.Path("run"), folder_.Path("other"));
  Run(Configure({"trainer.load_checkpoint_path=" + folder_.Path("other/global_step_2")}), 3);
  const auto tracker = ReadSmallFile(folder_.Path("run/checkpoint_tracker.json"), 1 << 20);
  ASSERT_TRUE(tracker.ok());
  EXPECT_EQ(Json::parse(*tracker)["last_global_step"], 3);
  EXPECT_FALSE(Json::parse(*tracker).contains("best_global_step"));
}

TEST_F(Loop, ADamagedCheckpointIsNotGoneOnFrom) {
  const Config config = Configure({"trainer.save_freq=2"});
  Run(config, 4);
  const std::string file =
      folder_.Path("run/global_step_4/actor/optim/dp_rank_00_tp_rank_01_pp_rank_00.pt");
  const auto archive = torch::ReadArchive(file);
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  testing_util::FlipFile(file, archive->tensors.back().storage->file_offset());
  const auto refused = Train({config, MakeRunPlan(config), {}}, MakeParts(config, 6), "{}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kCorrupt);
  EXPECT_EQ(refused.error().file(), file);
  const std::string earlier = "trainer.load_checkpoint_path=" + folder_.Path("run/global_step_2");
  EXPECT_THAT(refused.error().hint(), HasSubstr(earlier));
  // An error with a hint of its own keeps it.
  fs::resize_file(file, fs::file_size(file) / 2);
  const auto cut = Train({config, MakeRunPlan(config), {}}, MakeParts(config, 6), "{}");
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code(), Errc::kCorrupt);
  EXPECT_EQ(cut.error().file(), file);
  EXPECT_EQ(
      cut.error().hint(),
      "the file is cut off, or is still being written; continue from an earlier step: " + earlier);
  EXPECT_EQ(Run(Configure({earlier}), 6).size(), 4u);
}

TEST_F(Loop, WeightsThatMayBeWrongAreNotSaved) {
  const Config config = Configure({});
  RunParts parts = MakeParts(config, 6);
  // A fault of the reward does not concern the weights.
  parts.data.score = [score = parts.data.score, calls = 0](
                         std::span<const RewardSample> responses,
                         std::optional<size_t>& bad) mutable -> Result<std::vector<Scores>> {
    if (++calls < 3) return score(responses, bad);
    bad = 1;
    return Error(Errc::kCorrupt, "its overall is nan").member("sample 1");
  };
  TrainHooks hooks;
  hooks.note = [&](const std::string& line) { notes_.push_back(line); };
  auto result = Train({config, MakeRunPlan(config), hooks}, std::move(parts), "{}");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().hint(), HasSubstr("The sample was: prompt \""));
  EXPECT_EQ(notes_.back(), "step 2 is saved: the same command continues from it");
  // Logits that are not finite do.
  parts = MakeParts(config, 6);
  hooks.phase = [&, weights = parts.models.actor->weights()](int64_t step, int64_t,
                                                             const std::string& phase) {
    if (step != 5 || phase != "old") return;
    const std::vector<float> wrong(weights[0].table->size, NAN);
    std::memcpy(weights[0].parts.front().data, wrong.data(), wrong.size() * sizeof(float));
  };
  result = Train({config, MakeRunPlan(config), hooks}, std::move(parts), "{}");
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(fs::exists(folder_.Path("run/global_step_4")));
  EXPECT_EQ(notes_.back(),
            "the last checkpoint is that of step 2: the same command continues from it");
}

TEST_F(Loop, AFaultOfTheRewardInValidationCostsNoStep) {
  const Config config = Configure({"trainer.save_freq=100", "trainer.val_freq=2"});
  RunParts parts = MakeParts(config, 6);
  parts.data.score_validation = [](std::span<const RewardSample>,
                                   std::optional<size_t>&) -> Result<std::vector<Scores>> {
    return Error(Errc::kCorrupt, "its answer is not JSON").member("sample 0");
  };
  TrainHooks hooks;
  std::vector<std::string> phases;
  hooks.phase = [&](int64_t step, int64_t, const std::string& phase) {
    if (step == 2) phases.push_back(phase);
  };
  hooks.note = [&](const std::string& line) { notes_.push_back(line); };
  const auto result = Train({config, MakeRunPlan(config), hooks}, std::move(parts), "{}");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Errc::kCorrupt);
  EXPECT_EQ(phases.back(), "reward");
  EXPECT_EQ(phases.at(phases.size() - 2), "validation");
  EXPECT_EQ(notes_.back(), "step 2 is saved: the same command continues from it");
  EXPECT_TRUE(fs::exists(folder_.Path("run/global_step_2/actor/optim")));
  const auto rest = Run(config, 4);
  ASSERT_EQ(rest.size(), 2u);
  // The time of the scores belongs to validation.
  EXPECT_TRUE(rest.at(4).contains("timing_s/validation"));
}

// Validations before the first step and after the last one belong to no step, and have times of
// their own.
TEST_F(Loop, EveryValidationLogsItsTime) {
  const auto records = Run(Configure({"trainer.val_before_train=true", "trainer.val_freq=100"}), 1);
  ASSERT_EQ(records.size(), 2u);
  for (const int64_t step : {0, 1}) {
    EXPECT_TRUE(records.at(step).contains("val/reward_score")) << step;
    ASSERT_TRUE(records.at(step).contains("timing_s/validation")) << step;
    EXPECT_GT(records.at(step).at("timing_s/validation"), 0) << step;
  }
  EXPECT_FALSE(records.at(0).contains("timing_s/step"));
}

// The names of EasyR1, each where its feature is on. timing_s/save_checkpoint has a record of its
// own; the critic's are in the test of the critic.
TEST_F(Loop, LogsEveryMetricUnderItsName) {
  std::set<std::string> names;
  for (const char* loss : {"true", "false"})
    for (const auto& [step, record] :
         Run(Configure(
                 {"algorithm.disable_kl=false", std::string("algorithm.use_kl_loss=") + loss,
                  "trainer.val_freq=1", "trainer.peak_tflops=1",
                  "trainer.save_checkpoint_path=" + folder_.Path(std::string("run_") + loss)}),
             1))
      for (const auto& [name, value] : record) names.insert(name);
  std::vector<std::string> expected = {"actor/pg_loss",
                                       "actor/ppo_kl",
                                       "actor/entropy_loss",
                                       "actor/pg_clipfrac_higher",
                                       "actor/pg_clipfrac_lower",
                                       "actor/grad_norm",
                                       "actor/lr",
                                       "actor/kl_loss",
                                       "actor/kl_coef",
                                       "actor/kl_penalty",
                                       "reward/overall",
                                       "reward/length",
                                       "val/reward_score",
                                       "val/overall_reward",
                                       "val/length_reward",
                                       "perf/total_num_tokens",
                                       "perf/time_per_step",
                                       "perf/throughput",
                                       "perf/mfu_actor",
                                       "perf/max_memory_allocated_gb",
                                       "perf/max_memory_reserved_gb",
                                       "perf/cpu_memory_used_gb"};
  const auto add = [&](const std::string& group, const std::vector<std::string>& leaves) {
    for (const std::string& leaf : leaves) expected.push_back(group + "/" + leaf);
  };
  for (const char* group : {"score", "rewards", "advantages", "returns"})
    add(std::string("critic/") + group, {"mean", "max", "min"});
  for (const char* group :
       {"response_length", "prompt_length", "val_response_length", "val_prompt_length"})
    add(group, {"mean", "max", "min", "clip_ratio"});
  add("global_seqlen", {"min", "max", "minmax_diff", "balanced_min", "balanced_max", "mean"});
  add("timing_s", {"gen", "reward", "old", "ref", "adv", "update_actor", "validation", "step"});
  add("timing_per_token_ms", {"gen", "reward", "old", "ref", "adv", "update_actor"});
  for (const std::string& name : expected) EXPECT_TRUE(names.contains(name)) << name;
  const auto log = ReadSmallFile(folder_.Path("run_true/experiment_log.jsonl"), 1 << 20);
  ASSERT_TRUE(log.ok());
  EXPECT_THAT(*log, HasSubstr("\"timing_s\": {\"save_checkpoint\": "));
}

// Engine and trainer are one program here: the weights are near one, and nothing is truncated.
TEST_F(Loop, ImportanceWeightsAreLoggedWhereTheyAreAskedFor) {
  const auto plain = Run(Configure({"trainer.save_checkpoint_path=" + folder_.Path("plain")}), 1);
  EXPECT_TRUE(plain.at(1).contains("rollout/kl"));
  EXPECT_FALSE(plain.at(1).contains("rollout/is_mean"));
  const auto weighed =
      Run(Configure({"algorithm.rollout_is=sequence", "algorithm.rollout_is_threshold=1.5",
                     "trainer.save_checkpoint_path=" + folder_.Path("weighed")}),
          1);
  EXPECT_NEAR(weighed.at(1).at("rollout/is_mean"), 1, 0.05);
  EXPECT_EQ(weighed.at(1).at("rollout/is_truncated"), 0);
  EXPECT_GT(weighed.at(1).at("rollout/is_effective"), 0.99);
}

// Sync is part of gen, and saving part of the step; cispo and sapo clip nothing.
TEST_F(Loop, TimesAndClippingAreLoggedAsEasyR1Has) {
  for (const char* loss : {"default", "cispo", "sapo"}) {
    const auto metrics = Run(Configure({"trainer.save_freq=1", "trainer.val_freq=1",
                                        std::string("worker.actor.loss_type=") + loss,
                                        "trainer.save_checkpoint_path=" + folder_.Path(loss)}),
                             2);
    for (const auto& [step, record] : metrics) {
      const bool clips = std::string_view(loss) == "default";
      EXPECT_EQ(record.contains("actor/pg_clipfrac_higher"), clips) << loss;
      EXPECT_EQ(record.contains("actor/pg_clipfrac_lower"), clips) << loss;
      EXPECT_FALSE(record.contains("timing_s/sync"));
      double phases = 0;
      for (const auto& [name, value] : record)
        if (name.starts_with("timing_s/") && !name.starts_with("timing_s/sync_") &&
            name != "timing_s/step")
          phases += value;
      for (const char* part : {"digest", "write", "load"})
        EXPECT_GT(record.at("timing_s/sync_" + std::string(part)), 0) << part;
      EXPECT_EQ(record.at("sync/proved"), 1);
      EXPECT_GT(record.at("timing_s/save_checkpoint"), 0);
      EXPECT_LE(phases, record.at("timing_s/step") + 1e-6) << step;
      EXPECT_GT(phases, 0.9 * record.at("timing_s/step")) << step;
      EXPECT_EQ(record.at("perf/time_per_step"), record.at("timing_s/step"));
    }
  }
}

TEST_F(Loop, TellsHowFarAPhaseIs) {
  std::map<std::string, std::pair<int64_t, int64_t>> last;
  std::string phase;
  const Config config = Configure({"worker.actor.ppo_epochs=2"});
  RunParts parts = MakeParts(config, 1);
  TrainHooks hooks;
  hooks.phase = [&](int64_t, int64_t, const std::string& begun) { phase = begun; };
  hooks.progress = [&, mutex = std::make_shared<std::mutex>()](int64_t done, int64_t units) {
    const std::scoped_lock lock(*mutex);
    last[phase] = {std::max(done, last[phase].first), units};
  };
  parts.engines.generator =
      MakeEngineGenerator({.bundle = parts.engines.sync.bundle}, nullptr, hooks.progress);
  ASSERT_TRUE(Train({config, MakeRunPlan(config), hooks}, std::move(parts), "{}").ok());
  EXPECT_EQ(last["gen"], std::pair(int64_t{32}, int64_t{32}));
  EXPECT_EQ(last["update_actor"], std::pair(int64_t{64}, int64_t{64}));
}

const std::vector<std::string> kGae = {
    "algorithm.adv_estimator=gae", "worker.critic.global_batch_size=4",
    "worker.critic.ppo_epochs=2", "worker.critic.micro_batch_size_per_device_for_update=4",
    "worker.critic.optim.lr=0.003"};

std::vector<std::string> With(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Loop, ACriticLearnsTheReturnsBeforeTheActorLearnsFromThem) {
  const Config config = Configure(With(
      kGae, {"trainer.critic_warmup=11", "worker.rollout.n=16", "worker.actor.optim.lr=0.004"}));
  const auto metrics = Run(config, 120);
  const auto mean = [&](int64_t first, const char* name) {
    double sum = 0;
    for (int64_t step = first; step < first + 5; ++step) sum += metrics.at(step).at(name) / 5;
    return sum;
  };
  // Once most responses are right, there is little left to explain.
  double explained = -1;
  for (int64_t step = 1; step <= 116; ++step)
    explained = std::max(explained, mean(step, "critic/vf_explained_var"));
  EXPECT_LT(mean(1, "critic/vf_explained_var"), 0.1);
  EXPECT_GT(explained, 0.3);
  EXPECT_GT(mean(116, "reward/overall"), mean(1, "reward/overall") + 0.4);
  for (const auto& [step, record] : metrics) {
    EXPECT_EQ(record.contains("actor/grad_norm"), step >= 11) << step;
    for (const char* name :
         {"critic/vf_loss", "critic/vf_clipfrac", "critic/vpred_mean", "critic/grad_norm",
          "critic/lr", "critic/values/mean", "critic/values/max", "critic/values/min",
          "critic/returns/mean", "critic/vf_explained_var", "timing_s/values",
          "timing_s/update_critic"})
      EXPECT_TRUE(record.contains(name)) << name;
    EXPECT_EQ(record.at("critic/lr"), 0.003);
  }
  // The first update of a step starts from the step's own values.
  EXPECT_NEAR(metrics.at(1).at("critic/vpred_mean"), metrics.at(1).at("critic/values/mean"), 0.05);
  EXPECT_TRUE(fs::exists(folder_.Path("run/global_step_120/critic/optim")));
  EXPECT_TRUE(fs::exists(folder_.Path("run/global_step_120/critic/huggingface/config.json")));
}

TEST_F(Loop, ACriticIsResumedBitForBit) {
  const std::vector<std::string> options =
      With(kGae, {"trainer.save_freq=2", "algorithm.disable_kl=false", "algorithm.lam=0.9",
                  "trainer.critic_warmup=2", "trainer.save_limit=1",
                  "worker.critic.optim.lr_scheduler_type=cosine",
                  "worker.critic.optim.lr_warmup_steps=2"});
  const auto whole = Run(Configure(options), 5);
  EXPECT_FALSE(fs::exists(folder_.Path("run/global_step_4"))) << "one is kept";
  fs::rename(folder_.Path("run"), folder_.Path("whole"));
  // The same schedule, stopped on the way.
  TrainHooks hooks;
  hooks.poll = [&]() -> Status {
    if (!fs::exists(folder_.Path("run/global_step_2"))) return OkStatus();
    return Error(Errc::kInterrupted, "enough");
  };
  const Config config = Configure(options);
  EXPECT_FALSE(Train({config, MakeRunPlan(config), hooks}, MakeParts(config, 5), "{}").ok());
  const auto rest = Run(config, 5);
  ASSERT_EQ(rest.size(), 3u);
  for (int64_t step : {3, 4, 5})
    for (const char* name : {"actor/grad_norm", "reward/overall", "actor/pg_loss", "critic/vf_loss",
                             "critic/grad_norm", "critic/lr", "critic/values/mean"})
      EXPECT_EQ(rest.at(step).at(name), whole.at(step).at(name)) << step << " " << name;
}

TEST_F(Loop, ACheckpointWithoutACriticIsRefused) {
  Run(Configure({"trainer.save_freq=1"}), 1);
  const Config config = Configure(kGae);
  const auto result = Train({config, MakeRunPlan(config), {}}, MakeParts(config, 2), "{}");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Errc::kNotFound);
  EXPECT_EQ(result.error().message(), "the checkpoint has no critic");
  EXPECT_THAT(result.error().hint(), HasSubstr("algorithm.adv_estimator"));
}

TEST_F(Loop, KeepsAsManyCheckpointsAsAsked) {
  Run(Configure({"trainer.save_freq=1", "trainer.save_limit=2"}), 4);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_.Path("run")))
    if (entry.is_directory()) left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("global_step_3", "global_step_4"));
  const auto found = FindLastCheckpoint(folder_.Path("run"));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->step, 4);
  // A checkpoint named by a command is there for the same command.
  const std::string named = folder_.Path("run/global_step_3");
  const std::vector<std::string> words = {"trainer.save_freq=1", "trainer.save_limit=1",
                                          "trainer.load_checkpoint_path=" + named};
  Run(Configure(words), 6);
  EXPECT_TRUE(fs::exists(named));
  EXPECT_FALSE(fs::exists(folder_.Path("run/global_step_5")));
  EXPECT_EQ(Run(Configure(words), 7).size(), 1u);
}

}  // namespace
}  // namespace nxdkit::trainer
