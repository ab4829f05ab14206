// The rollout engine: a bundle with a CPU plan, loaded and run. Tensor-parallel ranks are threads
// of this process; batch size and sequence length are the bundle's, fixed; sequences come and go.
//
// An engine is made anew for every training step: destroy, refresh the bundle's weights, load. What
// a response is follows from the weights and the request alone: the same ids and the same bits of
// log-probabilities in any batch, slot, order, chunk of prompt, number of threads and process, on
// machines with the same instruction sets. Another number of ranks sums in another order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/rollout/weights_version.h"
#include "lib/tensor/dtype.h"
#include "trainer/rollout/sampling.h"

namespace nxdkit::trainer {

// What the training configuration says of the bundle (worker.rollout.neuron_override_config). What
// is said must be what the bundle was made for.
struct NeuronOverride {
  std::optional<int64_t> tp_degree{};
  std::optional<int64_t> batch_size{};
  std::optional<int64_t> seq_len{};
  std::optional<std::string> torch_dtype{};  // "bfloat16", "float32"
};

// Which weights the bundle must hold: a sync that did not happen, or only in part, does not pass.
struct ExpectedWeights {
  std::optional<int64_t> serial{};     // of version.json
  std::optional<std::string> label{};  //
  std::string digest{};                // "sha256:..." of the model as it was loaded; "" is any
};

// Whose engine generates: the one of this project, a vLLM server's, or another program's.
enum class EngineKind : uint8_t { kCpu, kVllm, kExec };

// What the engine of another program is told (trainer/engines).
struct OtherEngine {
  std::string url;                     // of a server that runs; "": `command` is started
  std::vector<std::string> command;    // words; {model}, {port} and the like are filled in
  std::vector<std::string> variables;  // "NAME=value", of the command beside what it inherits
  int64_t tp = 1;
  int64_t vocab = 0;
  int64_t seq_len = 0;  // prompt and response
  Dtype dtype = Dtype::kBF16;
  float temperature = 1;        // of the samples that are trained on
  int64_t in_flight = 256;      // sequences at a time; no more samples are asked for at once
  bool tells_log_probs = true;  // a request that tries the engine asks for them then
  bool starts_anew = false;     // a server of it takes no weights while it runs: vLLM Neuron
  double start_seconds = 600;   // until it answers
  double answer_seconds = 600;
  // Of the weights: what they are called, and the digests of what each rank is to hold
  // (ops::KeyedDigests); none where the engine's layout is not known.
  std::string version;
  std::vector<std::pair<std::string, std::string>> parameters;
};

struct EngineOptions {
  EngineKind kind = EngineKind::kCpu;
  std::string bundle;  // of another program's engine: the folder of the model
  NeuronOverride neuron_override{};
  ExpectedWeights expect{};
  int threads = 1;            // of each rank
  int64_t pass_tokens = 256;  // of one pass through the model; at least the batch size is taken
  bool digest = false;        // tell the digest even if none is expected
  OtherEngine other{};        // unless kCpu
};

struct EngineFacts {
  std::string model_type;
  int64_t tp = 1;
  int64_t batch_size = 1;
  int64_t seq_len = 1;
  int64_t vocab = 0;
  Dtype dtype = Dtype::kBF16;
  int64_t weight_bytes = 0;  // of all ranks, read for every pass
  int64_t cache_bytes = 0;   // of all ranks
  std::optional<rollout::WeightsVersion> version;
  std::string digest{};  // when asked for or expected
  // Of the loading, for people and metrics.
  std::string engine = "cpu";               // and its version: "vllm 0.32.0"
  std::map<std::string, double> seconds{};  // by part: "load", "reload", "check", ...
  int64_t proved = 0;                       // digests of what it holds that are as predicted
  int64_t not_covered = 0;  // parameters of which it keeps no bytes that could be compared
};

struct GenerateStats {
  int64_t passes = 0;
  int64_t prompt_tokens = 0;  // that went through the model
  int64_t copied_tokens = 0;  // of prompts, taken from a cache instead
  int64_t response_tokens = 0;
};

struct GenerateHooks {
  // Asked before every pass; its error ends the call.
  std::function<Status()> poll;
  // A response is whole. Called in the order in which they end, from one thread.
  std::function<void(size_t request, const RolloutResponse&)> on_response;
};

struct Generated {
  std::vector<RolloutResponse> responses;  // as the requests
  GenerateStats stats;
};

// One call at a time.
class Engine {
 public:
  // kUnsupported for a bundle without a CPU plan, with the numbers when it was made for others than
  // the override says, and for a model that the trainer does not run; kFindings when its weights
  // are not the expected ones; kCorrupt for a plan that does not fit its own bundle; kLimit for
  // memory. `poll` stops the loading. The bundle is read under its shared lock, and let go of.
  static Result<Engine> Load(const EngineOptions& options,
                             const std::function<Status()>& poll = nullptr);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const EngineFacts& facts() const;

  // kUsage, naming the request, for an empty prompt, one longer than seq_len - 1, ids that the
  // model does not have and parameters out of range. A response ends with a stop token, at
  // max_tokens, or when prompt and response are seq_len tokens. kCorrupt when logits are not
  // finite.
  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks = {});

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What Load checks before it reads weights: whether this engine can run the bundle at all. What the
// facts say of weights is not set.
Result<EngineFacts> CheckEngineBundle(const EngineOptions& options);

// What Load checks of what it has loaded: version and digest; also of what a worker says of itself.
// kFindings: "stale weights: ...".
Status CheckLoaded(const ExpectedWeights& expect, const EngineFacts& loaded,
                   const std::string& bundle);

// What Generate checks of its requests; also before they are sent to workers.
Status CheckRequests(std::span<const RolloutRequest> requests, const EngineFacts& facts);
// The response of another process is used as if the trainer had made it: kCorrupt unless it is one.
Status CheckResponse(const RolloutResponse& response, const RolloutRequest& request,
                     const EngineFacts& facts);

}  // namespace nxdkit::trainer
