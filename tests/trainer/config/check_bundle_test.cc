// A bundle must match the configuration, and its other properties must fit.
#include "trainer/config/check_bundle.h"
#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOptimum[] = R"({"_serialized_key": "NxDNeuronConfig", "batch_size": 64,
  "max_topk": 256, "on_device_sampling": true, "sequence_length": 4096, "torch_dtype": "bfloat16",
  "tp_degree": 1, "target": null})";
constexpr char kNxdi[] = R"({"model_type": "qwen3", "neuron_config": {"batch_size": 64,
  "seq_len": 4096, "tp_degree": 1, "on_device_sampling_config": {"do_sample": true, "top_k": 1},
  "buckets": [128, 4096], "quantize_clamp_bound": Infinity}})";

class CheckBundleTest : public ::testing::Test {
 protected:
  std::vector<ConfigProblem> Check(const std::string& text,
                                   const std::vector<std::string>& overrides) const {
    testing_util::WriteText(folder_ / "neuron_config.json", text);
    return CheckBundle(Load(kGoodConfig, overrides), folder_.path());
  }
  const testing_util::TempFolder folder_;
  const std::string engine_ = "worker.rollout.neuron_override_config.";
};

TEST_F(CheckBundleTest, WhatIsAskedForMustBeWhatItWasMadeFor) {
  const struct {
    const char* text;
    std::string ask;
    std::string key;
    std::string message;
    std::string fix;
  } rows[] = {
      {kOptimum, engine_ + "batch_size=32", engine_ + "batch_size",
       "32 is asked for, the bundle is made for 64",
       "set it to 64, or make the bundle again: neuron-export --bs 32"},
      {kNxdi, engine_ + "seq_len=2048", engine_ + "seq_len",
       "2048 is asked for, the bundle is made for 4096",
       "set it to 4096, or make the bundle again: neuron-export --seq 2048"},
      {kOptimum, "worker.rollout.tensor_parallel_size=2", engine_ + "tp_degree",
       "the engine is compiled for TP 1, worker.rollout.tensor_parallel_size is 2",
       "set worker.rollout.tensor_parallel_size to 1"},
      {kOptimum, "worker.rollout.dtype=fp32", "worker.rollout.dtype",
       "float32 is asked for, the bundle is made for bfloat16", "neuron-export --dtype f32"},
      {kOptimum, engine_ + "on_device_sampling=false", engine_ + "on_device_sampling",
       "false is asked for, the bundle is made for true", "set it to true"},
      {kNxdi, engine_ + "on_device_sampling=false", engine_ + "on_device_sampling",
       "false is asked for, the bundle is made for true", "set it to true"},
      {kNxdi, "worker.rollout.max_model_len=5000", "worker.rollout.max_model_len",
       "5000 is over the 4096 positions", "--seq 5000"},
      {kOptimum, engine_ + "max_topk=64", "worker.rollout.neuron_override_config",
       "max_topk: 64 is asked for, the bundle is made for 256", "set it to that"},
      {kNxdi, engine_ + "buckets=[128]", "worker.rollout.neuron_override_config",
       "buckets: [128] is asked for, the bundle is made for [128,4096]", ""},
      {kNxdi, "worker.rollout.neuron_override_config={on_device_sampling_config: {top_k: 2}}",
       "worker.rollout.neuron_override_config", "on_device_sampling_config: {\"top_k\": 2} is", ""},
      {kOptimum, engine_ + "max_topkk=64", "worker.rollout.neuron_override_config",
       "max_topkk: 64 is asked for, the bundle has no such key", "correct its name"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.ask);
    const std::vector<ConfigProblem> problems = Check(row.text, {row.ask});
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].key, row.key);
    EXPECT_EQ(problems[0].code, Errc::kUsage);
    EXPECT_THAT(problems[0].message, HasSubstr(row.message));
    EXPECT_THAT(problems[0].fix, HasSubstr(row.fix));
  }
}

TEST_F(CheckBundleTest, TakesWhatFits) {
  EXPECT_THAT(Check(kOptimum, {}), IsEmpty());
  EXPECT_THAT(
      Check(kOptimum, {engine_ + "tp_degree=1", engine_ + "batch_size=64", engine_ + "seq_len=4096",
                       engine_ + "on_device_sampling=true", engine_ + "max_topk=256",
                       engine_ + "target=null", "worker.rollout.dtype=bf16"}),
      IsEmpty());
  EXPECT_THAT(Check(kNxdi, {"worker.rollout.neuron_override_config={buckets: [128, 4096.0], "
                            "on_device_sampling_config: {do_sample: true}}"}),
              IsEmpty());
  // A default is not a request.
  std::string wide = kOptimum;
  wide.replace(wide.find("bfloat16"), 8, "float32");
  EXPECT_THAT(Check(wide, {}), IsEmpty());
}

TEST_F(CheckBundleTest, WhatIsNotAskedForMustFitAllTheSame) {
  std::string text = kOptimum;
  text.replace(text.find("4096"), 4, "100");
  text.replace(text.find("\"tp_degree\": 1"), 14, "\"tp_degree\": 8");
  const std::vector<ConfigProblem> problems = Check(text, {});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[0].message, HasSubstr("compiled for TP 8"));
  EXPECT_THAT(problems[1].message, HasSubstr("64 + data.max_response_length 64 = 128 is over the "
                                             "100 positions of the engine"));
}

TEST_F(CheckBundleTest, DamagedAndMissingBundlesAreNamed) {
  EXPECT_EQ(Check("{\"tp_degree\": 1}", {})[0].code, Errc::kCorrupt);
  EXPECT_EQ(Check("{", {})[0].code, Errc::kCorrupt);
  const std::vector<ConfigProblem> missing = CheckBundle(Load(kGoodConfig), folder_ / "none");
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].code, Errc::kNotFound);
  EXPECT_EQ(missing[0].key, "worker.rollout.model_path");
  EXPECT_THAT(missing[0].message, HasSubstr("neuron_config.json"));
  EXPECT_THAT(missing[0].fix, HasSubstr("neuron-export"));
}

// With all other problems, before anything is loaded.
TEST_F(CheckBundleTest, IsPartOfTheChecks) {
  testing_util::WriteText(folder_ / "neuron_config.json", kOptimum);
  testing_util::WriteText(folder_ / "data", "x");
  const ConfigCheck check = CheckConfig(
      Load(kGoodConfig, {"worker.actor.model.model_path=" + folder_.path(),
                         "data.train_files=" + (folder_ / "data"), "worker.rollout.n=3",
                         "worker.rollout.model_path=" + folder_.path(), engine_ + "seq_len=8192"}));
  EXPECT_THAT(Keys(check), ::testing::Contains(engine_ + "seq_len"));
}

}  // namespace
}  // namespace nxdkit::trainer::test
