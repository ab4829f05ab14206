// Engines that are programs: JSON Lines in both directions, and every way to fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/lib/expect_error.h"
#include "tests/trainer/engines/vllm_peer.h"
#include "tests/trainer/rollout/rollout_lab.h"
#include "trainer/engines/make_engine.h"

namespace nxdkit::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing_util::ExpectError;

class ExecEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MakeEngine(EngineKind::kExec);
    ASSERT_TRUE(made.ok());
    engine_ = *std::move(made);
  }
  ~ExecEngines() override {
    ::unsetenv("EXEC_PEER_DIGESTS");
    ::unsetenv("EXEC_PEER_SECONDS");
  }

  EngineOptions Options(const std::string& fault = "") const {
    EngineOptions options;
    options.kind = EngineKind::kExec;
    options.bundle = lab_.model();
    OtherEngine& other = options.other;
    other.command = {"python3",
                     std::string(NXDKIT_SOURCE_DIR) + "/tests/trainer/engines/exec_peer.py"};
    if (!fault.empty()) other.command.push_back(fault);
    other.vocab = lab_.vocab();
    other.seq_len = 32;
    other.start_seconds = 60;
    other.answer_seconds = 60;
    other.version = "step 1";
    other.parameters = PredictedOf(lab_.model());
    return options;
  }
  static void SetDigests(const ops::KeyedDigests& digests) {
    Json all = Json::object();
    for (const auto& [key, digest] : digests) all[key] = digest;
    ::setenv("EXEC_PEER_DIGESTS", all.dump().c_str(), 1);
  }
  Result<Generated> Generate(const std::string& fault) {
    SetUp();
    const auto facts = engine_->Load(Options(fault), nullptr);
    EXPECT_TRUE(facts.ok()) << Text(facts);
    SamplingParams sampling;
    sampling.log_probs = true;
    sampling.max_tokens = 4;
    return engine_->Generate(SampleRequests(3, 2, sampling), {});
  }

  const RolloutLab lab_{testing_util::TinyQwen3()};
  std::unique_ptr<RolloutEngine> engine_;
};

TEST_F(ExecEngines, LoadProveAndGenerate) {
  SetDigests(PredictedOf(lab_.model()));
  const auto facts = engine_->Load(Options(), nullptr);
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->engine, "exec peer");
  EXPECT_EQ(facts->proved, std::ssize(PredictedOf(lab_.model())));
  const auto generated = Generate("");
  ASSERT_TRUE(generated.ok()) << Text(generated);
  ASSERT_EQ(generated->responses.size(), 6u);
  for (const RolloutResponse& response : generated->responses) {
    EXPECT_EQ(response.ids, (std::vector<int32_t>{5, 5, 5, 5}));
    EXPECT_THAT(response.log_probs, Each(-1.5f));
  }
}

TEST_F(ExecEngines, OneThatCannotTellDigestsProvesNothing) {
  const auto facts = engine_->Load(Options(), nullptr);
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->proved, 0);
}

TEST_F(ExecEngines, OldWeightsAreFound) {
  ExpectError(engine_->Load(Options("old"), nullptr), Errc::kFindings, "stale weights");
  ops::KeyedDigests digests = PredictedOf(lab_.model());
  digests[0].second = std::string(64, 'a');
  SetDigests(digests);
  SetUp();
  ExpectError(engine_->Load(Options(), nullptr), Errc::kFindings,
              "stale weights: model.embed_tokens.weight: rank 0");
}

// The answer of neuron_weights.py: keys and digests of two ranks of vLLM Neuron.
TEST_F(ExecEngines, ParametersOfVllmNeuronAreProvedAndNamed) {
  EngineOptions options = Options();
  options.other.tp = 2;
  options.other.parameters = PredictedOnNeuron(lab_.model(), 2);
  ops::KeyedDigests digests = options.other.parameters;
  SetDigests(digests);
  const auto facts = engine_->Load(options, nullptr);
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->proved, std::ssize(digests));
  const std::string changed = "dp0:tp1:model.layers.1.self_attn.qkv_proj_weight";
  const auto found = std::ranges::find(digests, changed, &ops::KeyedDigests::value_type::first);
  ASSERT_NE(found, digests.end());
  found->second = std::string(64, 'a');
  SetDigests(digests);
  SetUp();
  ExpectError(engine_->Load(options, nullptr), Errc::kFindings,
              "stale weights: model.layers.1.self_attn.qkv_proj_weight: rank 1");
  SetDigests(PredictedOf(lab_.model(), 2));
  SetUp();
  ExpectError(engine_->Load(options, nullptr), Errc::kFindings, "the engine has no such parameter");
}

TEST_F(ExecEngines, TellWhatTheirReloadTook) {
  const auto load = [&](const char* seconds) {
    if (seconds) ::setenv("EXEC_PEER_SECONDS", seconds, 1);
    SetUp();
    return engine_->Load(Options(), nullptr);
  };
  const auto silent = load(nullptr);
  ASSERT_TRUE(silent.ok()) << Text(silent);
  EXPECT_GT(silent->seconds.at("reload"), 0);
  EXPECT_FALSE(silent->seconds.contains("stop"));
  const auto told = load(R"({"stop": 0.001, "start": 0, "resume": 0.0005, "other": "words"})");
  ASSERT_TRUE(told.ok()) << Text(told);
  EXPECT_EQ(told->seconds.at("stop"), 0.001);
  EXPECT_EQ(told->seconds.at("start"), 0);
  EXPECT_EQ(told->seconds.at("resume"), 0.0005);
  EXPECT_FALSE(told->seconds.contains("other"));
  ExpectError(load(R"({"start": 1e6})"), Errc::kIo, "start takes 1000000.0 of ");
  ExpectError(load(R"({"start": -1})"), Errc::kIo, "start takes -1 of ");
  ExpectError(load(R"({"stop": "long"})"), Errc::kIo, "stop takes \"long\" of ");
  ExpectError(load("[1]"), Errc::kIo, "seconds are ");
}

TEST_F(ExecEngines, FailuresSayWhatWentWrong) {
  ExpectError(engine_->Load(Options("error"), nullptr), Errc::kIo, "fails: no such model");
  EngineOptions silent = Options("silent");
  silent.other.start_seconds = 0.3;
  ExpectError(engine_->Load(silent, nullptr), Errc::kIo, "has said nothing for 0.3 s");
  EngineOptions nowhere = Options();
  nowhere.other.command = {"/no/such/program"};
  ExpectError(engine_->Load(nowhere, nullptr), Errc::kNotFound, "no such program");
  ExpectError(Generate("dies"), Errc::kIo, "exited with 7");
  ExpectError(Generate("words"), Errc::kIo, "not a JSON object: INFO loading");
  ExpectError(Generate("fewer"), Errc::kIo, "1 samples, 2 were asked for");
  ExpectError(Generate("other"), Errc::kIo, "a request that was not sent");
}

}  // namespace
}  // namespace nxdkit::trainer
