#include "trainer/config/load.h"

#include <algorithm>
#include <set>

#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"
#include "trainer/algo/advantage.h"
#include "trainer/algo/kl.h"
#include "trainer/algo/loss_average.h"
#include "trainer/algo/optimizer.h"
#include "trainer/algo/policy_loss.h"
#include "trainer/algo/schedule.h"
#include "trainer/config/key_table.h"
#include "trainer/config/print.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::HasSubstr;
using testing_util::ExpectError;

TEST(LoadConfig, DefaultsAreTheSchemas) {
  const Config config = Load("").config;
  EXPECT_EQ(config.data.rollout_batch_size, 512);
  EXPECT_EQ(config.worker.actor.optim.lr, 1e-6);
  EXPECT_EQ(config.worker.actor.clip_ratio_high, 0.3);
  EXPECT_EQ(config.worker.critic.cliprange_value, 0.5);
  EXPECT_EQ(config.trainer.save_limit, -1);
  EXPECT_EQ(config.algorithm.kl_penalty, "kl");
}

TEST(LoadConfig, OverridesWinOverTheFile) {
  const LoadedConfig loaded =
      Load("data:\n  seed: 5\n  shuffle: no\nworker: {rollout: {n: 3}}\n",
           {"worker.rollout.n=8", "worker.actor.optim={lr: 2e-5, betas: [0.8, 0.95]}",
            "trainer.logger=[\"file\",\"tensorboard\"]", "data.format_prompt=null"});
  EXPECT_EQ(loaded.config.data.seed, 5);
  EXPECT_FALSE(loaded.config.data.shuffle);
  EXPECT_EQ(loaded.config.worker.rollout.n, 8);
  EXPECT_EQ(loaded.config.worker.actor.optim.lr, 2e-5);
  EXPECT_EQ(loaded.config.worker.actor.optim.betas[1], 0.95);
  EXPECT_THAT(loaded.config.trainer.logger, ::testing::ElementsAre("file", "tensorboard"));
  EXPECT_EQ(loaded.PlaceOf("data.shuffle"), "run.yaml line 3 column 3");
  EXPECT_EQ(loaded.PlaceOf("worker.rollout.n"), "command line: worker.rollout.n=8");
  EXPECT_EQ(loaded.PlaceOf("trainer.nnodes"), "default");
}

TEST(LoadConfig, OpenMapsMergeKeyByKey) {
  const LoadedConfig loaded =
      Load("worker: {reward: {reward_function_kwargs: {format_weight: 0.1, x: 1}}}",
           {"worker.reward.reward_function_kwargs.format_weight=0.5",
            "worker.reward.reward_function_kwargs={y: {z: [1]}}"});
  EXPECT_EQ(ValueText(loaded.config.worker.reward.reward_function_kwargs),
            "{\"format_weight\": 0.5, \"x\": 1, \"y\": {\"z\": [1]}}");
}

TEST(LoadConfig, EngineKeysThatAreNotListedAreKept) {
  const LoadedConfig loaded =
      Load("worker: {rollout: {neuron_override_config: {tp_degree: 8, fused_qkv: true}}}",
           {"worker.rollout.neuron_override_config.max_topk=256"});
  const NeuronOverrideConfig& engine = loaded.config.worker.rollout.neuron_override_config;
  EXPECT_EQ(engine.tp_degree, 8);
  EXPECT_EQ(ValueText(engine.others), "{\"fused_qkv\": true, \"max_topk\": 256}");
  const auto error = ExpectError(Try("worker: {rollout: {neuron_override_config: {tp_degre: 8}}}"),
                                 Errc::kUsage, "there is no such key");
  EXPECT_EQ(error->hint(), "did you mean worker.rollout.neuron_override_config.tp_degree?");
}

TEST(LoadConfig, TheMachineSaysTheCoresWhereNobodyElseDoes) {
  LoadedConfig loaded = Load("trainer: {n_gpus_per_node: 8}", {});
  loaded.SetCores(32, "--instance trn1.32xlarge");
  EXPECT_EQ(loaded.config.trainer.cores, 32);
  EXPECT_EQ(loaded.PlaceOf("trainer.cores"), "--instance trn1.32xlarge");
  LoadedConfig said = Load("trainer: {cores: 4}", {});
  said.SetCores(32, "--instance trn1.32xlarge");
  EXPECT_EQ(said.config.trainer.cores, 4);
  LoadedConfig empty = Load("trainer: {cores: null}", {});  // as printed by --print-config
  empty.SetCores(32, "--instance trn1.32xlarge");
  EXPECT_EQ(empty.config.trainer.cores, 32);
}

TEST(LoadConfig, OverridesDoNotNestWithoutEnd) {
  std::string path = "worker.rollout.neuron_override_config";
  for (int i = 0; i < 60'000; ++i) path += ".a";
  ExpectError(Try("", {path + "=1"}), Errc::kUsage, "over the limit of 32");
}

TEST(LoadConfig, StringsTakeAnyScalarAsWritten) {
  const Config config =
      Load("trainer: {project_name: 007, experiment_name: 1e5}\ndata: {prompt_key: yes}").config;
  EXPECT_EQ(config.trainer.project_name, "007");
  EXPECT_EQ(config.trainer.experiment_name, "1e5");
  EXPECT_EQ(config.data.prompt_key, "yes");
}

TEST(LoadConfig, DerivedKeysFollow) {
  const Config config =
      Load("", {"worker.actor.model.model_path=m", "trainer.project_name=p"}).config;
  EXPECT_EQ(config.worker.actor.model.tokenizer_path, "m");
  EXPECT_EQ(config.trainer.save_checkpoint_path, "checkpoints/p/demo");
}

TEST(LoadConfig, TheOptimizerChoosesTheDtypeUnlessItIsSaid) {
  const auto dtype = [](std::vector<std::string> words) {
    return ComputeDtype(Load("", words).config);
  };
  EXPECT_EQ(dtype({}), Dtype::kF32);
  EXPECT_EQ(dtype({"worker.actor.optim.strategy=adamw_bf16"}), Dtype::kBF16);
  EXPECT_EQ(dtype({"worker.actor.optim.strategy=adamw_bf16_fixed"}), Dtype::kBF16);
  EXPECT_EQ(dtype({"worker.actor.compute_dtype=bf16"}), Dtype::kBF16);
  EXPECT_EQ(dtype({"worker.critic.optim.strategy=adamw_bf16"}), Dtype::kF32) << "the actor's rules";
}

struct WrongKey {
  const char* yaml;
  const char* place;
  const char* key;
  const char* hint;
};

TEST(LoadConfig, UnknownKeysNameTheNearest) {
  const WrongKey rows[] = {
      {"worker:\n  actor:\n    optim:\n      learning: 1\n", "run.yaml line 4 column 7",
       "worker.actor.optim.learning", ""},
      {"worker:\n  actor:\n    optim:\n      weigth_decay: 1\n", "run.yaml line 4 column 7",
       "worker.actor.optim.weigth_decay", "did you mean worker.actor.optim.weight_decay?"},
      {"rollout:\n  n: 4\n", "run.yaml line 1 column 1", "rollout", "did you mean worker.rollout?"},
      {"data: {adv_estimator: grpo}", "run.yaml line 1 column 8", "data.adv_estimator",
       "did you mean algorithm.adv_estimator?"},
      {"trainers: {max_steps: 1}", "run.yaml line 1 column 1", "trainers", "did you mean trainer?"},
      {"data: {seed: {x: 1}}", "run.yaml line 1 column 8", "data.seed", ""},
      {"worker: {rollout: {prompt_length: 5}}", "run.yaml line 1 column 20",
       "worker.rollout.prompt_length", "set data.max_prompt_length"},
      {"data.sede: 1", "run.yaml line 1 column 1", "data.sede", "did you mean data.seed?"},
  };
  for (const WrongKey& row : rows) {
    SCOPED_TRACE(row.yaml);
    const auto error = ExpectError(Try(row.yaml), Errc::kUsage, "");
    if (!error) continue;
    EXPECT_EQ(error->file(), row.place);
    EXPECT_EQ(error->member(), row.key);
    EXPECT_EQ(error->hint(), row.hint);
  }
}

TEST(LoadConfig, WrongTypesSayWhatWasFound) {
  const struct {
    const char* text;
    const char* part;
  } rows[] = {
      {"data.seed=abc", "expected int, found a string \"abc\""},
      {"data.seed=1.5", "expected int, found a number 1.5"},
      {"data.seed='1'", "expected int, found a string \"1\""},
      {"data.seed=99999999999999999999", "expected int, found a number 1.0e+20"},
      {"data.seed=", "expected int, found null"},
      {"data.shuffle=1", "expected bool, found an integer 1"},
      {"worker.actor.optim.lr=fast", "expected float, found a string \"fast\""},
      {"worker.actor.optim.betas=[0.9]", "expected [float, float], found a list [0.9]"},
      {"trainer.logger=file", "expected list of str, found a string \"file\""},
      {"trainer.logger=[[file]]", "expected list of str, found a list"},
      {"trainer.project_name=null", "expected str, found null"},
      {"worker.actor=5", "expected a map, found an integer"},
      {"worker.reward.reward_function_kwargs=5", "expected map, found an integer 5"},
      {"trainer.max_steps={a: 1}", "expected int?, found a map {\"a\": 1}"},
      {"data.seed", "expected key=value"},
      {"=5", "expected key=value"},
      {"data.seed=[1", "line 1"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    const auto error = ExpectError(Try("", {row.text}), Errc::kUsage, row.part);
    if (!error) continue;
    EXPECT_EQ(error->file(), std::string("command line: ") + row.text);
  }
}

TEST(LoadConfig, AllMistakesAreReportedTogether) {
  const auto error = ExpectError(Try("data:\n  sede: 1\n  shuffle: 3\n", {"trainer.nodes=2"}),
                                 Errc::kUsage, "3 problems in the configuration");
  EXPECT_THAT(error->message(),
              HasSubstr(":\n[1] run.yaml line 2 column 3: data.sede: there is no such key; did you "
                        "mean data.seed?"));
  EXPECT_THAT(error->message(), HasSubstr("\n[2] run.yaml line 3 column 3: data.shuffle: "
                                          "expected bool, found an integer 3"));
  EXPECT_THAT(error->message(), HasSubstr("\n[3] command line: trainer.nodes=2: trainer.nodes: "
                                          "there is no such key; did you mean trainer.nnodes?"));
}

TEST(LoadConfig, OfManyMistakesThreeAreShown) {
  const auto error =
      ExpectError(Try("data: {seed: a, shuffle: 3, rollout_batch_size: x, val_batch_size: y}\n",
                      {"worker.rollout.n=b"}),
                  Errc::kUsage, "5 problems in the configuration (3 here, and 2 more):\n[1] ");
  EXPECT_EQ(std::ranges::count(error->message(), '\n'), 3);
  EXPECT_THAT(error->message(), HasSubstr("\n[3] "));
}

TEST(LoadConfig, FilesAreNamedInErrors) {
  const testing_util::TempFolder folder;
  testing_util::WriteText(folder / "a.yaml", "data: [\n");
  const auto error = ExpectError(LoadConfig(folder / "a.yaml", {}), Errc::kCorrupt, "line");
  EXPECT_EQ(error->file(), folder / "a.yaml");
  ExpectError(LoadConfig(folder / "missing.yaml", {}), Errc::kNotFound, "");
  testing_util::WriteText(folder / "b.yaml", "data: {seed: 9}\n");
  const std::vector<std::string> named = {"config=" + (folder / "b.yaml"), "data.shuffle=false"};
  const Result<LoadedConfig> loaded = LoadConfig("", named);
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->config.data.seed, 9);
}

TEST(KeyTable, NamesAreUniqueAndWordsHoldTheDefault) {
  std::set<std::string_view> seen;
  Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path << " stands twice";
    EXPECT_FALSE(key.text.empty()) << key.path;
    const ConfigSlot slot = key.slot(defaults);
    const auto* word = std::get_if<std::string*>(&slot);
    if (word == nullptr || key.words.empty()) continue;
    const std::vector<std::string> words = SplitWords(key.words);
    EXPECT_NE(std::ranges::find(words, **word), words.end()) << key.path << " = " << **word;
  }
  EXPECT_GT(seen.size(), 180u);
}

// Every word is one that the algorithms know, and they know no others.
TEST(KeyTable, WordsAreThoseOfTheAlgorithms) {
  const struct {
    const char* path;
    bool (*known)(std::string_view);
    size_t words;
  } rows[] = {
      {"algorithm.adv_estimator", [](auto w) { return ParseAdvantageEstimator(w).ok(); }, 6},
      {"algorithm.kl_penalty", [](auto w) { return ParseKlEstimator(w).ok(); }, 4},
      {"algorithm.kl_type", [](auto w) { return ParseKlControl(w).ok(); }, 2},
      {"worker.actor.loss_type", [](auto w) { return ParseLossType(w).ok(); }, 5},
      {"worker.actor.loss_avg_mode", [](auto w) { return ParseLossAverage(w).ok(); }, 3},
      {"worker.actor.optim.strategy", [](auto w) { return ParseOptimizerType(w).ok(); }, 3},
      {"worker.actor.optim.lr_scheduler_type", [](auto w) { return ParseScheduleType(w).ok(); }, 2},
  };
  for (const auto& row : rows) {
    const std::vector<std::string> words = SplitWords(FindConfigKey(row.path)->words);
    EXPECT_EQ(words.size(), row.words) << row.path;
    for (const std::string& word : words) EXPECT_TRUE(row.known(word)) << row.path << " " << word;
  }
}

// Each key can be set by its own path, to its present value.
TEST(KeyTable, EveryKeyCanBeSet) {
  Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string text = std::string(key.path) + "=" + SlotText(key.slot(defaults));
    EXPECT_TRUE(Try("", {text}).ok()) << text;
  }
}

TEST(PrintConfig, ReadsBackAsTheSameConfig) {
  const LoadedConfig loaded = Load(
      "trainer: {project_name: \"a: b # \\\"c\\\" \\u00e9 \\n\", save_freq: 7}\n"
      "worker: {actor: {optim: {lr: 1e-7, min_lr_ratio: 0.1}}, rollout: {val_override_config: "
      "{temperature: 0.6}, neuron_override_config: {tp_degree: 8, x: [1, 2]}}}\n",
      {"worker.reward.reward_function_kwargs={a: {b: 1e-3}}", "worker.actor.model.model_path=m"});
  const std::string text = PrintConfig(loaded);
  EXPECT_THAT(text, HasSubstr("\n      lr: 1.0e-07  # run.yaml:2\n"));
  EXPECT_THAT(text, HasSubstr("\n      model_path: \"m\"  # command line\n"));
  EXPECT_THAT(text, HasSubstr("\n      tokenizer_path: \"m\"  # derived\n"));
  EXPECT_THAT(text, HasSubstr("\n  nnodes: 1  # default\n"));
  EXPECT_THAT(text, HasSubstr("\n      tp_degree: 8  # run.yaml:2\n"));
  EXPECT_THAT(text, HasSubstr("\n      \"x\": [1, 2]  # run.yaml:2\n"));
  const LoadedConfig again = Load(text);
  EXPECT_EQ(ConfigJson(again.config), ConfigJson(loaded.config));
  EXPECT_NE(ConfigJson(again.config), ConfigJson(Config()));
}

TEST(ConfigJson, IsNested) {
  const std::string json = ConfigJson(Load("", {"data.seed=42"}).config);
  EXPECT_THAT(json, HasSubstr("\"data\": {\n    \"train_files\": \"\""));
  EXPECT_THAT(json, HasSubstr("\"seed\": 42"));
  EXPECT_THAT(json, HasSubstr("\"betas\": [\n          0.9,\n          0.999\n        ]"));
}

}  // namespace
}  // namespace nxdkit::trainer::test
