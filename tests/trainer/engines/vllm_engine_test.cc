// Weights into a vLLM server, and the proof that they are there; its generated tokens; and every
// way to fail: none hangs, none passes as synced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "tests/lib/expect_error.h"
#include "tests/trainer/engines/vllm_peer.h"
#include "tests/trainer/rollout/rollout_lab.h"
#include "trainer/engines/make_engine.h"

namespace nxdkit::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::ExpectError;
using testing_util::PeerAnswer;

SamplingParams Sampled() {
  SamplingParams sampling;
  sampling.log_probs = true;
  sampling.max_tokens = 4;
  sampling.stop_tokens = {9};
  return sampling;
}

class VllmEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MakeEngine(EngineKind::kVllm);
    ASSERT_TRUE(made.ok());
    engine_ = *std::move(made);
  }

  EngineOptions Options(const std::string& version) const {
    EngineOptions options;
    options.kind = EngineKind::kVllm;
    options.bundle = lab_.model();
    OtherEngine& other = options.other;
    other.url = peer_.url();
    other.vocab = lab_.vocab();
    other.seq_len = 32;
    other.in_flight = 3;
    other.start_seconds = 60;
    other.answer_seconds = 60;
    other.version = version;
    other.parameters = PredictedOf(lab_.model());
    return options;
  }
  Result<EngineFacts> Load(const std::string& version = "step 1") {
    return engine_->Load(Options(version), nullptr);
  }
  // The peer stops at once after token 2, which the first prompts begin with.
  static std::vector<RolloutRequest> Requests(int prompts, int samples) {
    std::vector<RolloutRequest> requests = SampleRequests(prompts, samples, Sampled());
    for (int s = 0; s < samples; ++s)
      requests[requests.size() - 1 - static_cast<size_t>(s)].prompt[0] = 3;
    return requests;
  }
  Result<Generated> Generate(int prompts = 4, int samples = 2) {
    return engine_->Generate(Requests(prompts, samples), {});
  }
  static VllmPeer::Fault On(const std::string& path, const PeerAnswer& answer) {
    return [=](const std::string& asked, const Json&) {
      return asked == path ? std::optional(answer) : std::nullopt;
    };
  }

  // The model with the bytes of one tensor changed.
  std::string Tampered(const std::string& tensor, auto change) const {
    const std::string folder = lab_.Path("tampered");
    fs::remove_all(folder);
    fs::copy(lab_.model(), folder, fs::copy_options::recursive);
    auto source = ops::OpenAndBind(lab_.model(), &ops::kHf, {});
    EXPECT_TRUE(source.ok());
    std::string bytes = testing_util::ReadBytes(folder + "/model.safetensors");
    bool found = false;
    for (const StoredTensor& stored : source->bound.stored) {
      if (stored.name != tensor) continue;
      found = true;
      size_t size = 4;
      for (const int64_t n : stored.shape) size *= static_cast<size_t>(n);
      change(std::span(bytes.data() + stored.storage->file_offset() + stored.offset, size));
    }
    EXPECT_TRUE(found) << tensor;
    lab_.Write("tampered/model.safetensors", bytes);
    return folder;
  }
  // Expects a refusal that names this parameter; the server is left paused.
  void ExpectStale(const std::string& loaded, const std::string& parameter) {
    peer_.LoadsInstead(loaded);
    const auto facts = Load();
    ExpectError(facts, Errc::kFindings, "stale weights: ");
    ASSERT_FALSE(facts.ok());
    EXPECT_THAT(facts.error().message(), HasSubstr(parameter));
    EXPECT_TRUE(peer_.paused());
    EXPECT_THAT(peer_.asked(), Not(Contains("/resume")));
  }

  const RolloutLab lab_{testing_util::TinyQwen3()};
  VllmPeer peer_{lab_.model()};
  std::unique_ptr<RolloutEngine> engine_;
};

TEST_F(VllmEngines, TakeNewWeightsInTheOrderThatIsSafe) {
  const auto facts = Load();
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->proved, std::ssize(PredictedOf(lab_.model())));
  EXPECT_EQ(facts->not_covered, 0);
  EXPECT_EQ(facts->engine, "vllm 0.32.0");
  for (const char* part : {"pause", "reload", "check", "resume"})
    EXPECT_TRUE(facts->seconds.contains(part)) << part;
  EXPECT_FALSE(facts->seconds.contains("start"));
  EXPECT_THAT(peer_.asked(),
              ElementsAre("/health", "/version", "/inference/v1/generate", "/is_paused",
                          "/weight_checker", "/v1/models", "/pause", "/collective_rpc",
                          "/weight_checker", "/reset_prefix_cache", "/update_weight_version",
                          "/resume", "/inference/v1/generate"));
  EXPECT_EQ(peer_.bodies("/collective_rpc")[0],
            Json({{"method", "reload_weights"}, {"kwargs", {{"weights_path", lab_.model()}}}}));
  EXPECT_EQ(peer_.bodies("/update_weight_version")[0], Json({{"new_version", "step 1"}}));
}

// Otherwise a server started without log-probabilities refuses them in the first step.
TEST_F(VllmEngines, TheTrialAsksForWhatTheOthersAskFor) {
  EngineOptions options = Options("step 1");
  for (const bool tells : {true, false}) {
    options.other.tells_log_probs = tells;
    const auto facts = engine_->Load(options, nullptr);
    ASSERT_TRUE(facts.ok()) << Text(facts);
    const Json trial = peer_.bodies("/inference/v1/generate").back();
    EXPECT_EQ(trial["sampling_params"]["logprobs"].is_null(), !tells);
  }
}

TEST_F(VllmEngines, AskForEverythingThatChangesAResponse) {
  ASSERT_TRUE(Load().ok());
  peer_.Forget();
  const auto generated = Generate();
  ASSERT_TRUE(generated.ok()) << Text(generated);
  ASSERT_EQ(generated->responses.size(), 8u);
  EXPECT_EQ(generated->responses[2].ids, std::vector<int32_t>{9});
  EXPECT_EQ(generated->responses[2].reason, FinishReason::kStop);
  EXPECT_EQ(generated->responses[7].ids, std::vector<int32_t>(4, VllmPeer::kToken));
  EXPECT_THAT(generated->responses[7].log_probs, Each(-1.5f));
  EXPECT_EQ(generated->responses[7].reason, FinishReason::kLength);
  std::vector<Json> bodies = peer_.bodies("/inference/v1/generate");
  ASSERT_EQ(bodies.size(), 4u) << "the samples of a prompt in one request";
  std::set<uint64_t> seeds;
  for (const Json& body : bodies) {
    const Json& sampling = body["sampling_params"];
    seeds.insert(sampling["seed"].get<uint64_t>());
    EXPECT_EQ(sampling["n"], 2);
    for (const char* said :
         {"temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens", "logprobs",
          "presence_penalty", "frequency_penalty", "repetition_penalty", "stop_token_ids"})
      EXPECT_TRUE(sampling.contains(said)) << said;
    EXPECT_EQ(sampling["ignore_eos"], true) << "ends are ours";
    EXPECT_EQ(sampling["stop_token_ids"], Json::array({9}));
  }
  EXPECT_EQ(seeds.size(), 4u) << "each prompt draws its own noise";
}

// A server refuses more samples of a prompt than its --max-num-seqs.
TEST_F(VllmEngines, ManySamplesAreSeveralRequests) {
  ASSERT_TRUE(Load().ok());
  peer_.Forget();
  ASSERT_TRUE(Generate(1, 5).ok());
  std::map<uint64_t, int> samples;
  for (const Json& body : peer_.bodies("/inference/v1/generate"))
    samples[body["sampling_params"]["seed"]] = body["sampling_params"]["n"];
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples.begin()->second, 3);
  EXPECT_EQ(samples.rbegin()->second, 2);
  EXPECT_EQ(samples.rbegin()->first, samples.begin()->first + 3) << "each sample has its own seed";
}

TEST_F(VllmEngines, UseCompletionsWhereThereIsNothingElse) {
  peer_.Fails(
      On("/inference/v1/generate", {.status = 403, .body = R"({"error":{"message":"disabled"}})"}));
  const auto facts = Load();
  ASSERT_TRUE(facts.ok()) << Text(facts);
  peer_.Forget();
  const auto generated = Generate();
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_THAT(generated->responses[7].log_probs, Each(-1.5f));
  const std::vector<Json> bodies = peer_.bodies("/v1/completions");
  ASSERT_EQ(bodies.size(), 4u);
  EXPECT_EQ(bodies[0]["return_token_ids"], true);
  EXPECT_EQ(bodies[0]["return_tokens_as_token_ids"], true);
}

// A flipped bit, a swapped kv head, a skipped layer; and a reload that did nothing, to which the
// server answers 200.
TEST_F(VllmEngines, AFlippedBitIsFound) {
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  ExpectStale(Tampered(name, [](std::span<char> bytes) { bytes[102] ^= 0x40; }), name);
}
TEST_F(VllmEngines, ASwappedKeyHeadIsFound) {
  const auto swap = [](std::span<char> bytes) {
    std::swap_ranges(bytes.begin(), bytes.begin() + std::ssize(bytes) / 2,
                     bytes.begin() + std::ssize(bytes) / 2);
  };
  ExpectStale(Tampered("model.layers.0.self_attn.k_proj.weight", swap),
              "model.layers.0.self_attn.qkv_proj.weight");
}
TEST_F(VllmEngines, ASkippedLayerIsFound) {
  const std::string name = "model.layers.2.mlp.gate_proj.weight";
  const std::string old = Tampered(name, [](std::span<char> bytes) { bytes[3] ^= 1; });
  ExpectStale(old, "model.layers.2.mlp.gate_up_proj.weight");
}
TEST_F(VllmEngines, AReloadThatDidNothingIsFound) {
  const std::string before = Tampered("model.norm.weight", [](std::span<char> bytes) {
    for (size_t i = 2; i < bytes.size(); i += 4) bytes[i] ^= 0x10;
  });
  peer_.LoadsInstead(before);
  EXPECT_FALSE(Load().ok());
  ExpectStale("", "model.norm.weight: rank 0: the engine holds different bytes");
}

TEST_F(VllmEngines, MissingAndUnknownParametersAreFound) {
  const auto answer = [&](auto change) {
    Json all = Json::object();
    for (const auto& [key, digest] : PredictedOf(lab_.model())) all[key] = digest;
    change(all);
    return PeerAnswer{.body = Json{{"checksums", all}}.dump()};
  };
  ASSERT_TRUE(Load().ok());
  peer_.Fails(On("/weight_checker",
                 answer([](Json& all) { all.erase("dp0:pp0:pcp0:tp0:model.norm.weight"); })));
  ExpectError(Load(), Errc::kFindings, "the engine has no such parameter");
  peer_.Fails(On("/weight_checker", answer([](Json& all) {
                   all["dp0:pp0:pcp0:tp0:model.more.weight"] = std::string(64, 'a');
                 })));
  ExpectError(Load(), Errc::kFindings, "nothing of the model fills it");
}

// Every call of a sync, failing in every way: an error that reports it, and no resume.
TEST_F(VllmEngines, AnyCallThatFailsFailsTheSync) {
  const PeerAnswer faults[] = {{.status = 500, .body = R"({"error":{"message":"dead engine"}})"},
                               {.body = "{}", .promised = 100},
                               {.wait_ms = 60'000}};
  for (const char* path : {"/pause", "/collective_rpc", "/weight_checker", "/reset_prefix_cache",
                           "/update_weight_version"})
    for (const PeerAnswer& fault : faults) {
      peer_.Fails(nullptr);
      SetUp();
      peer_.Forget();
      peer_.Fails(On(path, fault));
      EngineOptions options = Options("step 1");
      if (fault.wait_ms > 0) options.other.answer_seconds = 1;
      const auto facts = engine_->Load(options, nullptr);
      ExpectError(facts, Errc::kIo, fault.status == 500 ? "500: dead engine" : "no answer");
      EXPECT_THAT(peer_.asked(), Not(Contains("/resume"))) << path;
    }
}

TEST_F(VllmEngines, APrefixCacheThatIsHeldIsAskedAgain) {
  int refused = 0;
  peer_.Fails([&](const std::string& path, const Json&) -> std::optional<PeerAnswer> {
    if (path != "/reset_prefix_cache" || ++refused > 3) return std::nullopt;
    return PeerAnswer{.body = R"({"success":false})"};
  });
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(refused, 4);
}

TEST_F(VllmEngines, ARunningServerMustTakeWeights) {
  peer_.Fails(On("/is_paused", {.status = 404, .body = R"({"detail":"Not Found"})"}));
  const auto error = ExpectError(Load(), Errc::kUnsupported, "new weights while it runs");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("VLLM_SERVER_DEV_MODE=1"));
}

// Before it is paused or given any weights.
TEST_F(VllmEngines, OtherRanksAndModelsAreNotStaleWeights) {
  EngineOptions options = Options("step 1");
  options.other.tp = 2;
  options.other.parameters = PredictedOf(lab_.model(), 2);
  ExpectError(engine_->Load(options, nullptr), Errc::kUnsupported,
              "the server has no parameter dp0:pp0:pcp0:tp1:");
  EXPECT_THAT(peer_.asked(), Not(Contains("/pause")));
}

// For example a bundle: its reload could not be proved.
TEST_F(VllmEngines, WhatCannotBeProvedIsNotExchanged) {
  EngineOptions options = Options("step 1");
  options.other.parameters.clear();
  ExpectError(engine_->Load(options, nullptr), Errc::kUnsupported, "new weights while it runs");
  SetUp();
  peer_.Fails(On("/weight_checker", {.status = 404, .body = R"({"detail":"Not Found"})"}));
  ExpectError(Load(), Errc::kUnsupported, "new weights while it runs");
  EXPECT_THAT(peer_.asked(), Not(Contains("/collective_rpc")));
}

TEST_F(VllmEngines, AnEngineThatShowsNothingIsNotProved) {
  constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  Json all = Json::object();
  for (const auto& [key, digest] : PredictedOf(lab_.model())) all[key] = kOfNothing;
  ASSERT_TRUE(Load().ok());
  peer_.Fails(On("/weight_checker", {.body = Json{{"checksums", all}}.dump()}));
  ExpectError(Load(), Errc::kFindings, "stale weights: model.embed_tokens.weight");
}

TEST_F(VllmEngines, ShortSequencesAreRefused) {
  EngineOptions options = Options("step 1");
  options.other.seq_len = 65;
  ExpectError(engine_->Load(options, nullptr), Errc::kUnsupported,
              "have 64 tokens at most, 65 are needed");
}

TEST_F(VllmEngines, AServerThatIsNotThereIsNotWaitedForLong) {
  EngineOptions options = Options("step 1");
  options.other.url = "http://127.0.0.1:1";
  options.other.start_seconds = 0.3;
  ExpectError(engine_->Load(options, nullptr), Errc::kIo, "does not answer /health");
  options.other.url = peer_.url();
  peer_.Fails(On("/health", {.status = 503}));
  ExpectError(engine_->Load(options, nullptr), Errc::kIo, "after 0.3 s: the server answers 503");
  peer_.Fails(On("/health", {.status = 404}));
  options.other.start_seconds = 600;
  ExpectError(engine_->Load(options, nullptr), Errc::kUnsupported, "the server answers 404");
}

// vLLM Neuron takes no new weights while it runs: it is started with them, and a worker extension
// shows the result of its loaders.
TEST_F(VllmEngines, OneOnNeuronIsStartedAnewAndProved) {
  EngineOptions options = Options("step 1");
  options.other.url = "";
  options.other.command = {NXDKIT_VLLM_PEER, "{port}", "{model}", "workers", "2"};
  options.other.tp = 2;
  options.other.starts_anew = true;
  options.other.parameters = PredictedOnNeuron(lab_.model(), 2);
  for (const bool again : {false, true}) {
    const auto facts = engine_->Load(options, nullptr);
    ASSERT_TRUE(facts.ok()) << Text(facts);
    EXPECT_EQ(facts->proved, std::ssize(options.other.parameters));
    EXPECT_EQ(facts->seconds.contains("stop"), again);
    for (const char* part : {"start", "check", "resume"})
      EXPECT_TRUE(facts->seconds.contains(part)) << part;
    EXPECT_FALSE(facts->seconds.contains("reload"));
  }
  options.other.parameters.back().second = std::string(64, 'a');
  ExpectError(engine_->Load(options, nullptr), Errc::kFindings,
              "stale weights: lm_head.weight: rank 1");
  options.other.command.resize(3);
  options.other.parameters = PredictedOnNeuron(lab_.model(), 2);
  ExpectError(engine_->Load(options, nullptr), Errc::kFindings, "the engine has no such parameter");
}

TEST_F(VllmEngines, OneOnNeuronWithoutTheExtensionProvesNothing) {
  EngineOptions options = Options("step 1");
  options.other.url = "";
  options.other.command = {NXDKIT_VLLM_PEER, "{port}", "{model}", "neuron", "32"};
  options.other.starts_anew = true;
  options.other.tells_log_probs = false;
  options.other.parameters = PredictedOnNeuron(lab_.model());
  const auto facts = engine_->Load(options, nullptr);
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->proved, 0);
}

TEST_F(VllmEngines, WaitingEndsWhenItIsNotWantedAnyMore) {
  EngineOptions options = Options("step 1");
  options.other.url = "http://127.0.0.1:1";
  options.other.start_seconds = 600;
  const auto stop = [] { return Status(Error(Errc::kInterrupted, "stopped")); };
  ExpectError(engine_->Load(options, stop), Errc::kInterrupted, "stopped");
  ASSERT_TRUE(Load().ok());
  peer_.Fails(On("/inference/v1/generate", {.wait_ms = 60'000}));
  ExpectError(
      engine_->Generate(SampleRequests(4, 2, Sampled()), {.poll = stop, .on_response = nullptr}),
      Errc::kInterrupted, "stopped");
}

struct BadAnswer {
  const char* what;
  std::function<void(Json& choices)> change;
  Errc code;
  const char* says;
};

// Answers other than requested: a failed engine, or old weights.
TEST_F(VllmEngines, AnswersAreHeldAgainstTheQuestion) {
  const BadAnswer kBad[] = {
      {"a sample less", [](Json& c) { c.erase(1); }, Errc::kIo, "1 samples, 2 were asked for"},
      {"one twice", [](Json& c) { c[1]["index"] = 0; }, Errc::kIo, "has the index 0"},
      {"beyond the vocabulary",
       [](Json& c) {
         c[0]["token_ids"][1] = 64;
         c[0]["logprobs"]["content"][1]["token_id"] = 64;
       },
       Errc::kIo, "token id 64 is not below"},
      {"a negative id",
       [](Json& c) {
         c[0]["token_ids"][1] = -1;
         c[0]["logprobs"]["content"][1]["token_id"] = -1;
       },
       Errc::kIo, "a token id is -1"},
      {"other tokens' numbers", [](Json& c) { c[0]["logprobs"]["content"].erase(0); }, Errc::kIo,
       "of other tokens"},
      {"no numbers", [](Json& c) { c[0].erase("logprobs"); }, Errc::kIo, "logprobs"},
      {"aborted", [](Json& c) { c[0]["finish_reason"] = "abort"; }, Errc::kIo, "\"abort\""},
      {"cut without a word", [](Json& c) { c[0]["finish_reason"] = "stop"; }, Errc::kIo,
       "ended with \"stop\""},
      {"old weights", [](Json& c) { c[0]["weight_versions"][0]["version"] = "step 0"; },
       Errc::kFindings, "made with version \"step 0\", expected \"step 1\""},
  };
  ASSERT_TRUE(Load().ok());
  for (const BadAnswer& bad : kBad) {
    peer_.Fails([&](const std::string& path, const Json& body) -> std::optional<PeerAnswer> {
      if (path != "/inference/v1/generate" || body.empty()) return std::nullopt;
      Json choices = VllmPeer::Choices(body["sampling_params"], Json::array(), true, "step 1");
      bad.change(choices);
      return PeerAnswer{.body = Json{{"choices", choices}}.dump()};
    });
    SCOPED_TRACE(bad.what);
    ExpectError(Generate(1), bad.code, bad.says);
  }
}

TEST_F(VllmEngines, ARequestIsTriedAgainWhileTheServerIsHealthy) {
  ASSERT_TRUE(Load().ok());
  int failed = 0;
  peer_.Fails([&](const std::string& path, const Json& body) -> std::optional<PeerAnswer> {
    if (path != "/inference/v1/generate" ||
        body["request_id"].get<std::string>().ends_with("-try-2"))
      return std::nullopt;
    return ++failed % 2 == 1 ? PeerAnswer{.status = 500, .body = "{}"}
                             : PeerAnswer{.body = "{}", .promised = 50};
  });
  const auto generated = Generate();
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(generated->responses.size(), 8u);
  peer_.Fails([&](const std::string& path, const Json&) -> std::optional<PeerAnswer> {
    if (path == "/health") return PeerAnswer{.status = 503};
    if (path == "/inference/v1/generate") return PeerAnswer{.status = 500, .body = "{}"};
    return std::nullopt;
  });
  peer_.Forget();
  ExpectError(Generate(1), Errc::kIo, "the server answers 500");
  EXPECT_EQ(peer_.bodies("/inference/v1/generate").size(), 1u) << "a dead engine is not asked on";
}

TEST_F(VllmEngines, WhatTheServerRefusesIsNotTriedAgain) {
  ASSERT_TRUE(Load().ok());
  peer_.Forget();
  peer_.Fails(
      On("/inference/v1/generate", {.status = 400, .body = R"({"error":{"message":"too long"}})"}));
  ExpectError(Generate(1), Errc::kUnsupported, "400: too long");
  EXPECT_EQ(peer_.bodies("/inference/v1/generate").size(), 1u);
}

TEST_F(VllmEngines, TokensBeyondTheVocabularyAreNeverSent) {
  ASSERT_TRUE(Load().ok());
  peer_.Forget();
  auto requests = SampleRequests(1, 1, Sampled());
  requests[0].prompt[0] = 64;
  ExpectError(engine_->Generate(requests, {}), Errc::kUsage, "64");
  EXPECT_THAT(peer_.asked(), ::testing::IsEmpty()) << "it would kill the engine";
}

}  // namespace
}  // namespace nxdkit::trainer
