#include "trainer/rollout/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "formats/ops/digest/digest.h"
#include "lib/base/errors.h"
#include "lib/system/system.h"
#include "trainer/comm/comm.h"
#include "trainer/model/memory.h"
#include "trainer/rollout/open_bundle.h"
#include "trainer/rollout/rank_model.h"
#include "trainer/rollout/sampler.h"
#include "trainer/rollout/schedule.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kLoadBuffers = uint64_t{256} << 20;

// The cap of the engines of formats/ops includes memory that the process already holds.
artifact::RunOptions LoadOptions(int jobs, const std::function<Status()>& poll) {
  artifact::RunOptions run;
  run.jobs = jobs;
  run.max_memory = RssBytes() + kLoadBuffers;
  run.poll = poll;
  return run;
}

std::string VersionText(const std::optional<rollout::WeightsVersion>& version) {
  if (!version) return "weights that were never refreshed";
  return fmt::format("version {} \"{}\" of {}", version->serial, version->label, version->source);
}

// Checks the bundle's version before any of it is loaded.
Status CheckVersion(const ExpectedWeights& expect,
                    const std::optional<rollout::WeightsVersion>& found,
                    const std::string& bundle) {
  const bool serial = !expect.serial || (found && found->serial == *expect.serial);
  const bool label = !expect.label || (found && found->label == *expect.label);
  if (serial && label) return OkStatus();
  return Error(Errc::kFindings,
               fmt::format("stale weights: found {}, expected {}{}", VersionText(found),
                           expect.serial ? fmt::format("version {}", *expect.serial) : "",
                           expect.label ? fmt::format(" \"{}\"", *expect.label) : ""))
      .in(bundle);
}

// The digest of the weights in memory, not of the files.
Result<std::string> DigestOf(const models::Model& model, const std::vector<RankMemory>& ranks,
                             const artifact::RunOptions& run) {
  artifact::BoundArtifact memory;
  memory.model = model;
  memory.params = model.Logical();
  BindMemory(model, OwnNumbers(model), ranks, memory.bound);
  NXDKIT_ASSIGN(const ops::ModelDigest digest, ops::DigestModel(memory, run));
  return manifest::DigestText(digest.digest);
}

Status CheckRequest(const RolloutRequest& request, const EngineFacts& facts) {
  const int64_t tokens = std::ssize(request.prompt);
  if (tokens < 1 || tokens > facts.seq_len - 1)
    return BadUsage("a prompt of {} tokens, expected 1 to {}: the sequence length is {}", tokens,
                    facts.seq_len - 1, facts.seq_len);
  for (const int32_t id : request.prompt)
    if (id < 0 || id >= facts.vocab)
      return BadUsage("token id {} is not below the model's {}", id, facts.vocab);
  const SamplingParams& sampling = request.sampling;
  if (sampling.temperature != 0 &&
      !(sampling.temperature >= kMinTemperature && sampling.temperature < INFINITY))
    return BadUsage("temperature {}, expected 0 (greedy) or at least {}", sampling.temperature,
                    kMinTemperature);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    return BadUsage("top_p {}, expected more than 0 and at most 1", sampling.top_p);
  if (sampling.top_k < -1) return BadUsage("top_k {}, expected -1 (off) or more", sampling.top_k);
  if (sampling.max_tokens < 1)
    return BadUsage("max_tokens {}, expected 1 or more", sampling.max_tokens);
  return OkStatus();
}

}  // namespace

struct Engine::State {
  OpenedBundle bundle;  // closed once the weights are loaded; configuration and tables stay
  EngineFacts& facts = bundle.facts;
  int threads = 1;
  int64_t pass_tokens = 1;
  std::vector<std::optional<RankModel>> ranks;
  std::unique_ptr<ThreadWorld> world;

  // A world in which something failed cannot be used any longer.
  Status OnRanks(const std::function<Status(Comm&)>& body) {
    if (!world) world = std::make_unique<ThreadWorld>(static_cast<int>(facts.tp), threads);
    Status status = world->Run(body);
    if (!status.ok()) world.reset();
    return status;
  }

  Status LoadRanks(const EngineOptions& options, const std::function<Status()>& poll) {
    const models::Model& model = bundle.config.model;
    const int jobs = options.threads * static_cast<int>(facts.tp);
    std::vector<Weights> weights;
    std::vector<RankMemory> memory;
    for (const ParamTable& table : bundle.tables) weights.emplace_back(table, facts.dtype);
    for (size_t r = 0; r < weights.size(); ++r)
      memory.push_back({&bundle.tables[r], weights[r].bytes(), facts.dtype});
    NXDKIT_TRY(LoadWeights(bundle.artifact, model, memory, LoadOptions(jobs, poll)));
    if (options.digest || !options.expect.digest.empty()) {
      NXDKIT_ASSIGN(facts.digest, DigestOf(model, memory, LoadOptions(jobs, poll)));
      NXDKIT_TRY(CheckLoaded(options.expect, facts, options.bundle));
    }
    bundle.artifact = {};
    for (Weights& rank : weights) rank.Changed();
    return Pack(weights);
  }

  Status Pack(std::vector<Weights>& weights) {
    ranks.resize(weights.size());
    NXDKIT_TRY(OnRanks([&](Comm& tp) -> Status {
      const size_t rank = static_cast<size_t>(tp.rank());
      NXDKIT_ASSIGN(RankModel model,
                    RankModel::Make(bundle.config, bundle.tables[rank], weights[rank],
                                    {facts.batch_size, facts.seq_len, facts.dtype}));
      ranks[rank] = std::move(model);
      return OkStatus();
    }));
    for (const std::optional<RankModel>& rank : ranks) {
      facts.weight_bytes += rank->weight_bytes();
      facts.cache_bytes += rank->cache_bytes();
    }
    return OkStatus();
  }

  // The same on every rank, except that rank 0 talks to the caller: the ranks draw equal tokens, so
  // their schedules are equal.
  Status RunRank(Comm& tp, std::span<const RolloutRequest> requests, const GenerateHooks& hooks,
                 Generated& out) {
    RankModel& model = *ranks[static_cast<size_t>(tp.rank())];
    const bool speaks = tp.rank() == 0;
    Schedule schedule(requests, facts.batch_size, facts.seq_len, pass_tokens);
    Sampler sampler(tp, bundle.tables[0].vocab);
    GenerateStats stats;
    Pass pass;
    std::vector<Draw> draws;
    std::vector<Drawn> drawn;
    while (schedule.Next(pass)) {
      if (speaks && hooks.poll) NXDKIT_TRY(hooks.poll());
      NXDKIT_ASSIGN(const float* logits, model.Forward(tp, pass));
      draws.clear();
      for (const Pass::Wanted& wanted : pass.wanted) {
        const RolloutRequest& request = requests[wanted.request];
        const double uniform = DrawUniform(
            MakeKey(request.seed, RandomUse::kSampling),
            {request.step, request.prompt_index, request.sample_index, wanted.position});
        draws.push_back({&request.sampling, uniform, wanted.request, wanted.position});
      }
      NXDKIT_TRY(sampler.Sample(draws, logits, drawn));
      for (size_t i = 0; i < drawn.size(); ++i) {
        const size_t request = pass.wanted[i].request;
        const bool whole = schedule.Accept(pass.wanted[i], drawn[i].token, drawn[i].log_prob);
        if (whole && speaks && hooks.on_response)
          hooks.on_response(request, schedule.response(request));
      }
      ++stats.passes;
      stats.response_tokens += std::ssize(drawn);
      stats.prompt_tokens += std::ssize(pass.places);
    }
    if (!speaks) return OkStatus();
    // Every token of a response but the last was also an input of the model.
    stats.prompt_tokens -= stats.response_tokens - std::ssize(requests);
    stats.copied_tokens = schedule.copied_tokens();
    out.stats = stats;
    out.responses = std::move(schedule).TakeResponses();
    return OkStatus();
  }
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

const EngineFacts& Engine::facts() const { return state_->facts; }

Result<Engine> Engine::Load(const EngineOptions& options, const std::function<Status()>& poll) {
  if (options.threads < 1 || options.pass_tokens < 1)
    return BadUsage("{} threads and passes of {} tokens: both must be 1 or more", options.threads,
                    options.pass_tokens);
  auto state = std::make_unique<State>();
  NXDKIT_ASSIGN(state->bundle, OpenBundleForEngine(options));
  EngineFacts& facts = state->bundle.facts;
  state->threads = options.threads;
  state->pass_tokens = std::max(options.pass_tokens, facts.batch_size);
  NXDKIT_TRY(CheckVersion(options.expect, facts.version, options.bundle));
  try {
    NXDKIT_TRY(state->LoadRanks(options, poll));
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the model's weights").in(options.bundle);
  }
  return Engine(std::move(state));
}

Result<EngineFacts> CheckEngineBundle(const EngineOptions& options) {
  NXDKIT_ASSIGN(const OpenedBundle opened, OpenBundleForEngine(options));
  return opened.facts;
}

Status CheckLoaded(const ExpectedWeights& expect, const EngineFacts& loaded,
                   const std::string& bundle) {
  NXDKIT_TRY(CheckVersion(expect, loaded.version, bundle));
  if (expect.digest.empty() || loaded.digest == expect.digest) return OkStatus();
  return Error(
             Errc::kFindings,
             fmt::format("stale weights: the model that was loaded has the digest {}, expected {}",
                         loaded.digest.empty() ? "of nothing" : loaded.digest, expect.digest))
      .in(bundle);
}

Status CheckRequests(std::span<const RolloutRequest> requests, const EngineFacts& facts) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Status good = CheckRequest(requests[i], facts);
    if (!good.ok())
      return Error(good.error().code(), fmt::format("request {}: {}", i, good.error().message()));
  }
  return OkStatus();
}

Result<Generated> Engine::Generate(std::span<const RolloutRequest> requests,
                                   const GenerateHooks& hooks) {
  NXDKIT_TRY(CheckRequests(requests, state_->facts));
  // Kept separately: the other ranks see it in the form of an interruption.
  Status stopped;
  GenerateHooks watched = hooks;
  if (hooks.poll) watched.poll = [&] { return stopped = hooks.poll(); };
  Generated out;
  const Status status = state_->OnRanks([&](Comm& tp) -> Status {
    try {
      return state_->RunRank(tp, requests, watched, out);
    } catch (const std::bad_alloc&) {
      return OverLimit("not enough memory to generate");
    }
  });
  if (!stopped.ok()) return std::move(stopped).error();
  if (!status.ok()) return status.error();
  return out;
}

Status CheckResponse(const RolloutResponse& response, const RolloutRequest& request,
                     const EngineFacts& facts) {
  const int64_t tokens = std::ssize(response.ids);
  const int64_t most =
      std::min(request.sampling.max_tokens, facts.seq_len - std::ssize(request.prompt));
  if (tokens < 1 || tokens > most)
    return Corrupt("a response of {} tokens, expected 1 to {}", tokens, most);
  for (const int32_t id : response.ids)
    if (id < 0 || id >= facts.vocab)
      return Corrupt("token id {} is not below the model's {}", id, facts.vocab);
  const size_t expected = request.sampling.log_probs ? response.ids.size() : 0;
  if (response.log_probs.size() != expected)
    return Corrupt("{} log-probabilities, expected {}", response.log_probs.size(), expected);
  for (const float log_prob : response.log_probs)
    if (!std::isfinite(log_prob)) return Corrupt("a log-probability of {}", log_prob);
  const bool stops = !request.sampling.ignore_eos &&
                     std::ranges::count(request.sampling.stop_tokens, response.ids.back()) > 0;
  if (stops == (response.reason == FinishReason::kStop) && (stops || tokens == most))
    return OkStatus();
  return Corrupt("{} tokens, the last of which is {}, and it ended with \"{}\"", tokens,
                 response.ids.back(), response.reason == FinishReason::kStop ? "stop" : "length");
}

}  // namespace nxdkit::trainer
