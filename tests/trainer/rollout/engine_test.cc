// The engine compared with the trainer's decoder, and with itself: in any batch, slot, chunk and
// process a request gives the same bits.
#include "trainer/rollout/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/system/system.h"
#include "tests/trainer/rollout/rollout_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using testing_util::TinyModel;

SamplingParams Sampled(int64_t max_tokens = 12) {
  SamplingParams sampling;
  sampling.temperature = 0.8f;
  sampling.log_probs = true;
  sampling.max_tokens = max_tokens;
  return sampling;
}

Engine Load(const EngineOptions& options) {
  auto engine = Engine::Load(options);
  EXPECT_TRUE(engine.ok()) << Text(engine);
  return *std::move(engine);
}

std::vector<RolloutResponse> Generate(Engine& engine, const std::vector<RolloutRequest>& requests) {
  auto generated = engine.Generate(requests);
  EXPECT_TRUE(generated.ok()) << Text(generated);
  return generated.ok() ? generated->responses : std::vector<RolloutResponse>(requests.size());
}

void ExpectDecoderLogProbs(const RolloutLab& lab, const std::vector<RolloutRequest>& requests,
                           const std::vector<RolloutResponse>& responses, float tolerance,
                           Dtype dtype = Dtype::kF32) {
  float least = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<float> expected = lab.DecoderLogProbs(
        requests[i].prompt, responses[i].ids, requests[i].sampling.temperature, dtype);
    ASSERT_EQ(responses[i].log_probs.size(), expected.size());
    for (size_t t = 0; t < expected.size(); ++t) {
      EXPECT_TRUE(std::abs(responses[i].log_probs[t] - expected[t]) <= tolerance)
          << "request " << i << " token " << t << ": " << responses[i].log_probs[t]
          << ", the decoder says " << expected[t];
      least = std::min(least, expected[t]);
    }
  }
  EXPECT_LT(least, -1.0f) << "certain tokens alone compare nothing";
}

// Two key heads: on four ranks they are shared.
TEST(Engine, LogProbsAreThoseOfTheDecoder) {
  for (const TinyModel& tiny :
       {testing_util::TinyLlama(), testing_util::TinyQwen2(), testing_util::TinyQwen3(),
        testing_util::TinyMha(), testing_util::TinyBiased(), testing_util::TinyWindowed()}) {
    const RolloutLab lab(tiny);
    for (const int64_t tp : {1, 2, 4}) {
      SCOPED_TRACE(tiny.family + " on " + std::to_string(tp));
      // optimum-neuron fuses q, k and v of a llama, without biases.
      const auto flavor = tiny.biases ? rollout::Flavor::kNxdi : rollout::Flavor::kOptimum;
      Engine engine =
          Load({.bundle = lab.Bundle({.tp = tp, .flavor = flavor}, "tp" + std::to_string(tp))});
      const auto requests = SampleRequests(5, 2, Sampled());
      ExpectDecoderLogProbs(lab, requests, Generate(engine, requests), 1e-4f);
    }
  }
}

TEST(Engine, NxdiBundlesAndFusedOnesRunToo) {
  const RolloutLab lab(testing_util::TinyQwen3());
  Engine optimum = Load({.bundle = lab.Bundle({.tp = 2}, "optimum")});
  Engine nxdi = Load({.bundle = lab.Bundle({.tp = 2, .flavor = rollout::Flavor::kNxdi}, "nxdi")});
  const auto requests = SampleRequests(4, 1, Sampled());
  EXPECT_EQ(Generate(nxdi, requests), Generate(optimum, requests));
}

TEST(Engine, Bf16IsCloseToTheDecoderInBf16) {
  const RolloutLab lab(testing_util::TinyQwen3());
  for (const int64_t tp : {1, 2}) {
    Engine engine =
        Load({.bundle = lab.Bundle({.tp = tp, .dtype = Dtype::kBF16}, "tp" + std::to_string(tp))});
    EXPECT_EQ(engine.facts().dtype, Dtype::kBF16);
    const auto requests = SampleRequests(5, 2, Sampled());
    ExpectDecoderLogProbs(lab, requests, Generate(engine, requests), 0.1f, Dtype::kBF16);
  }
}

TEST(Engine, GreedyTakesTheMostLikelyTokenOfTheDecoder) {
  const RolloutLab lab(testing_util::TinyQwen3());
  SamplingParams greedy = Sampled(10);
  greedy.temperature = 0;
  for (const int64_t tp : {1, 4}) {
    Engine engine = Load({.bundle = lab.Bundle({.tp = tp}, "tp" + std::to_string(tp))});
    const auto requests = SampleRequests(4, 1, greedy);
    const auto responses = Generate(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<int32_t> so_far = requests[i].prompt;
      for (size_t t = 0; t < responses[i].ids.size(); ++t) {
        const std::vector<float> next = lab.NextLogProbs(so_far);
        const auto best = std::max_element(next.begin(), next.end());
        EXPECT_EQ(responses[i].ids[t], best - next.begin()) << "request " << i << " token " << t;
        EXPECT_NEAR(responses[i].log_probs[t], *best, 1e-4);  // at temperature 1
        so_far.push_back(responses[i].ids[t]);
      }
    }
  }
}

// The promise of engine.h, to the bit: batch sizes, chunks, threads, order and company.
TEST(Engine, WhatARequestGivesDependsOnItAlone) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    SCOPED_TRACE(Name(dtype));
    const RolloutLab lab(testing_util::TinyQwen3());
    const auto requests = SampleRequests(6, 3, Sampled(20));
    Engine one = Load({.bundle = lab.Bundle({.batch_size = 1, .dtype = dtype}, "one")});
    std::vector<RolloutResponse> alone;
    for (const RolloutRequest& request : requests)
      alone.push_back(Generate(one, {request}).front());
    const std::string bundle = lab.Bundle({.batch_size = 7, .dtype = dtype}, "seven");
    for (const int threads : {1, 3})
      for (const int64_t pass_tokens : {1, 9, 256}) {
        Engine engine = Load({.bundle = bundle, .threads = threads, .pass_tokens = pass_tokens});
        EXPECT_EQ(Generate(engine, requests), alone) << threads << " threads, " << pass_tokens;
        std::vector<RolloutRequest> backwards(requests.rbegin(), requests.rend());
        auto responses = Generate(engine, backwards);
        std::reverse(responses.begin(), responses.end());
        EXPECT_EQ(responses, alone) << "in another order";
      }
  }
}

TEST(Engine, RanksGiveTheSameBitsInAnyBatch) {
  const RolloutLab lab(testing_util::TinyLlama());
  const auto requests = SampleRequests(5, 2, Sampled());
  Engine one = Load({.bundle = lab.Bundle({.tp = 4, .batch_size = 1}, "one")});
  Engine five = Load({.bundle = lab.Bundle({.tp = 4, .batch_size = 5}, "five"), .pass_tokens = 6});
  EXPECT_EQ(Generate(five, requests), Generate(one, requests));
}

TEST(Engine, SamplesOfAPromptReadItOnce) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({.batch_size = 4}), .pass_tokens = 4});
  auto requests = SampleRequests(1, 4, Sampled(3));
  requests[3].prompt.push_back(9);
  for (RolloutRequest& request : requests)
    for (int i = 0; i < 17; ++i) request.prompt.insert(request.prompt.begin(), 5 + i);
  auto generated = engine.Generate(requests);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  // 20 tokens once; for each of the others the last one.
  EXPECT_EQ(generated->stats.prompt_tokens, 20 + 1 + 1 + 1);
  EXPECT_EQ(generated->stats.copied_tokens, 19 + 19 + 20);
  EXPECT_EQ(generated->stats.response_tokens, 12);
}

TEST(Engine, DrawsFollowSeedStepPromptAndSample) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({})});
  const RolloutRequest base = SampleRequests(1, 1, Sampled(24)).front();
  std::vector<RolloutRequest> requests(6, base);
  requests[2].seed += 1;
  requests[3].step += 1;
  requests[4].prompt_index += 1;
  requests[5].sample_index += 1;
  const auto responses = Generate(engine, requests);
  EXPECT_EQ(responses[0], responses[1]);
  std::set<std::vector<int32_t>> different;
  for (const RolloutResponse& response : responses) different.insert(response.ids);
  EXPECT_EQ(different.size(), 5u);
}

TEST(Engine, ResponsesEndAtStopTokensAndKeepThem) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({.batch_size = 3})});
  auto requests = SampleRequests(7, 2, Sampled(40));
  const auto whole = Generate(engine, requests);
  for (RolloutRequest& request : requests) request.sampling.stop_tokens = {11, 40, 3};
  const auto stopped = Generate(engine, requests);
  int ended = 0;
  std::set<size_t> lengths;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto& ids = whole[i].ids;
    const auto end =
        std::find_first_of(ids.begin(), ids.end(), requests[i].sampling.stop_tokens.begin(),
                           requests[i].sampling.stop_tokens.end());
    const bool stops = end != ids.end();
    const std::vector<int32_t> expected(ids.begin(), stops ? end + 1 : end);
    EXPECT_EQ(stopped[i].ids, expected) << i;
    EXPECT_EQ(stopped[i].log_probs.size(), expected.size());
    EXPECT_EQ(stopped[i].reason, stops ? FinishReason::kStop : FinishReason::kLength);
    ended += stops;
    lengths.insert(expected.size());
  }
  EXPECT_GT(ended, 3);
  EXPECT_GT(lengths.size(), 3u) << "ragged lengths were meant";
  for (RolloutRequest& request : requests) request.sampling.ignore_eos = true;
  EXPECT_EQ(Generate(engine, requests), whole);
}

TEST(Engine, PromptAndResponseFillTheSequenceAtMost) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({.seq_len = 16})});
  auto requests = SampleRequests(1, 2, Sampled(1000));
  requests[0].prompt.resize(15, 4);
  requests[1].prompt.resize(5, 4);
  const auto responses = Generate(engine, requests);
  EXPECT_EQ(responses[0].ids.size(), 1u);
  EXPECT_EQ(responses[1].ids.size(), 11u);
  EXPECT_EQ(responses[1].reason, FinishReason::kLength);
  ExpectDecoderLogProbs(lab, requests, responses, 1e-4f);
}

TEST(Engine, TellsWhenAResponseIsWhole) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({.tp = 2, .batch_size = 2})});
  const auto requests = SampleRequests(3, 2, Sampled(4));
  std::map<size_t, RolloutResponse> told;
  int polls = 0;
  GenerateHooks hooks;
  hooks.on_response = [&](size_t i, const RolloutResponse& response) { told[i] = response; };
  hooks.poll = [&]() -> Status {
    ++polls;
    return OkStatus();
  };
  const auto generated = engine.Generate(requests, hooks);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  ASSERT_EQ(told.size(), requests.size());
  for (const auto& [i, response] : told) EXPECT_EQ(response, generated->responses[i]);
  EXPECT_EQ(polls, generated->stats.passes);
}

// As in every step of a run: destroy, load, generate.
TEST(Engine, LivesAndDiesInTheSameMemory) {
  const RolloutLab lab(testing_util::TinyLlama());
  const std::string bundle = lab.Bundle({.tp = 2});
  const auto requests = SampleRequests(2, 2, Sampled());
  uint64_t before = 0;
  for (int step = 0; step < 60; ++step) {
    if (step == 20) before = RssBytes();
    Engine engine = Load({.bundle = bundle, .digest = true});
    Generate(engine, requests);
  }
  EXPECT_LT(RssBytes(), before + (uint64_t{4} << 20)) << "was " << before;
}

TEST(Engine, IsOfUseAfterAnInterruption) {
  const RolloutLab lab(testing_util::TinyLlama());
  Engine engine = Load({.bundle = lab.Bundle({.tp = 2})});
  const auto requests = SampleRequests(3, 1, Sampled());
  GenerateHooks hooks;
  int passes = 0;
  hooks.poll = [&]() -> Status {
    if (++passes < 3) return OkStatus();
    return Error(Errc::kInterrupted, "enough of it");
  };
  const auto stopped = engine.Generate(requests, hooks);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message(), "enough of it");
  ExpectDecoderLogProbs(lab, requests, Generate(engine, requests), 1e-4f);
}

}  // namespace
}  // namespace nxdkit::trainer
