// The sizes of an engine of another program: for a bundle its own, and its place.
#include "trainer/loop/others_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/trainer/rollout/rollout_lab.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;
using testing_util::TinyLlama;

Config Configure(std::vector<std::string> words) {
  const std::vector<std::string> base = {
      "worker.rollout.engine=vllm", "worker.rollout.tensor_parallel_size=2", "trainer.cores=2",
      "data.max_prompt_length=10",  "data.max_response_length=20",           "worker.rollout.n=2"};
  words.insert(words.begin(), base.begin(), base.end());
  const auto loaded = LoadConfig("", words);
  EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
  return loaded->config;
}

EngineShape ShapeOf(const Config& config, bool on_devices = false) {
  const auto shape = OthersShape(config, MakeRunPlan(config), on_devices);
  EXPECT_TRUE(shape.ok()) << shape.error().ToString();
  return shape.ok() ? *shape : EngineShape();
}

class OthersEngineTest : public ::testing::Test {
 protected:
  std::string Compiled() const {
    const std::string bundle =
        lab_.Bundle({.tp = 2, .batch_size = 3, .seq_len = 64, .dtype = Dtype::kBF16, .cpu = false});
    lab_.Write("bundle/model.pt", "compiled");
    return "worker.rollout.model_path=" + bundle;
  }
  const RolloutLab lab_{TinyLlama()};
};

// The default of max_in_flight is 256, the default length that of prompts and responses.
TEST_F(OthersEngineTest, ABundleSaysItsSizesAndIsOnTheDevice) {
  const Config config = Configure({Compiled()});
  const EngineShape shape = ShapeOf(config);
  EXPECT_EQ(shape.tp, 2);
  EXPECT_EQ(shape.slots, 3);
  EXPECT_EQ(shape.positions, 64);
  EXPECT_EQ(shape.dtype, Dtype::kBF16);
  EXPECT_EQ(shape.place, EnginePlace::kDevice);
  EXPECT_FALSE(shape.tells_log_probs) << "its graph samples";
  const auto engines = OthersEngines(config, MakeRunPlan(config), 64, shape);
  ASSERT_TRUE(engines.ok()) << engines.error().ToString();
  for (const EngineOptions& engine : *engines) {
    EXPECT_EQ(engine.other.in_flight, 3) << "a server refuses more than its bundle is made for";
    EXPECT_EQ(engine.other.seq_len, 64);
    EXPECT_FALSE(engine.other.tells_log_probs);
  }
}

TEST_F(OthersEngineTest, FewerAtATimeMayBeAskedFor) {
  const Config config = Configure({Compiled(), "worker.rollout.max_in_flight=2"});
  const EngineShape shape = ShapeOf(config);
  EXPECT_EQ(shape.slots, 3) << "the cache is as large as it was compiled";
  EXPECT_EQ((*OthersEngines(config, MakeRunPlan(config), 64, shape))[0].other.in_flight, 2);
}

TEST_F(OthersEngineTest, WithoutABundleTheConfigurationSays) {
  const EngineShape here = ShapeOf(Configure({}));
  EXPECT_EQ(here.slots, 256);
  EXPECT_EQ(here.positions, 30);
  EXPECT_EQ(here.place, EnginePlace::kHost);
  EXPECT_TRUE(here.tells_log_probs);
  const Config batch = Configure({"worker.rollout.neuron_override_config.batch_size=16"});
  const EngineShape sized = ShapeOf(batch);
  EXPECT_EQ(sized.slots, 16);
  const auto engines = OthersEngines(batch, MakeRunPlan(batch), 64, sized);
  ASSERT_TRUE(engines.ok()) << engines.error().ToString();
  EXPECT_EQ(engines->front().other.in_flight, 256) << "nothing is compiled for 16";
  EXPECT_TRUE(engines->front().other.tells_log_probs);
  EXPECT_EQ(ShapeOf(Configure({}), true).place, EnginePlace::kDevice);
  const Config urls = Configure({"worker.rollout.url=[http://127.0.0.1:1]"});
  EXPECT_EQ(ShapeOf(urls, true).place, EnginePlace::kElsewhere);
}

TEST_F(OthersEngineTest, ABundleForOurEngineIsInMemory) {
  const std::string bundle = lab_.Bundle({.tp = 2});
  const EngineShape shape = ShapeOf(Configure({"worker.rollout.model_path=" + bundle}));
  EXPECT_EQ(shape.place, EnginePlace::kHost);
  EXPECT_EQ(shape.dtype, Dtype::kF32) << "the bundle's own, not the default of worker.rollout";
  EXPECT_TRUE(shape.tells_log_probs);
  const Config config = Configure({"worker.rollout.model_path=" + bundle});
  EXPECT_EQ(ShapeOf(config, true).place, EnginePlace::kHost) << "wherever the run is";
  const auto engines = OthersEngines(config, MakeRunPlan(config), 64, shape);
  ASSERT_TRUE(engines.ok()) << engines.error().ToString();
  EXPECT_EQ(engines->front().other.in_flight, 256) << "no server is started for its batch size";
}

TEST_F(OthersEngineTest, ABundleThatIsNotThereIsNamed) {
  const Config config = Configure({"worker.rollout.model_path=" + lab_.Path("none")});
  const auto error =
      ExpectError(OthersShape(config, MakeRunPlan(config), false), Errc::kNotFound, "");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), lab_.Path("none"));
}

}  // namespace
}  // namespace nxdkit::trainer
