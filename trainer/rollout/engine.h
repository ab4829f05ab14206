// The rollout engine: a bundle with a CPU plan, loaded and run. Tensor-parallel ranks are threads
// of this process; batch size and sequence length are fixed by the bundle; sequences come and go.
//
// A new engine is created for every training step: destroy, refresh the bundle's weights, load. A
// response depends only on the weights and the request: ids and log-probabilities have the same
// bits in any batch, slot, order, chunk of prompt, number of threads and process, on machines with
// the same instruction sets. Another number of ranks sums in another order.
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

// Requirements of the training configuration (worker.rollout.neuron_override_config): the bundle
// must have been made for the values that are set.
struct NeuronOverride {
  std::optional<int64_t> tp_degree{};
  std::optional<int64_t> batch_size{};
  std::optional<int64_t> seq_len{};
  std::optional<std::string> torch_dtype{};  // "bfloat16", "float32"
};

// The weights that the bundle must hold: detects a sync that did not happen, or only in part.
struct ExpectedWeights {
  std::optional<int64_t> serial{};     // from version.json
  std::optional<std::string> label{};  //
  std::string digest{};                // "sha256:..." of the model as loaded; "" is any
};

// The engine that generates: this project's, a vLLM server's, or another program's.
enum class EngineKind : uint8_t { kCpu, kVllm, kExec };

// The options of another program's engine (trainer/engines).
struct OtherEngine {
  std::string url;                     // of a running server; "": `command` is started
  std::vector<std::string> command;    // words; {model}, {port} and the like are replaced
  std::vector<std::string> variables;  // "NAME=value", added to the command's environment
  int64_t tp = 1;
  int64_t vocab = 0;
  int64_t seq_len = 0;  // prompt and response
  Dtype dtype = Dtype::kBF16;
  float temperature = 1;        // of the samples for training
  int64_t in_flight = 256;      // concurrent sequences; no more samples are requested at once
  bool tells_log_probs = true;  // the request that tests the engine then asks for them
  bool starts_anew = false;     // its server cannot reload weights: vLLM Neuron
  double start_seconds = 600;   // until it answers
  double answer_seconds = 600;
  // The name of the weights, and the digests of each rank's share (ops::KeyedDigests); none if the
  // engine's layout is unknown.
  std::string version;
  std::vector<std::pair<std::string, std::string>> parameters;
};

struct EngineOptions {
  EngineKind kind = EngineKind::kCpu;
  std::string bundle;  // for another program's engine: the folder of the model
  NeuronOverride neuron_override{};
  ExpectedWeights expect{};
  int threads = 1;            // per rank
  int64_t pass_tokens = 256;  // in one pass through the model; at least the batch size
  bool digest = false;        // report the digest even if none is expected
  OtherEngine other{};        // unless kCpu
};

struct EngineFacts {
  std::string model_type;
  int64_t tp = 1;
  int64_t batch_size = 1;
  int64_t seq_len = 1;
  int64_t vocab = 0;
  Dtype dtype = Dtype::kBF16;
  int64_t weight_bytes = 0;  // on all ranks, read in every pass
  int64_t cache_bytes = 0;   // on all ranks
  std::optional<rollout::WeightsVersion> version;
  std::string digest{};  // when requested or expected
  // Facts about the loading, for people and metrics.
  std::string engine = "cpu";               // with its version: "vllm 0.32.0"
  std::map<std::string, double> seconds{};  // by part: "load", "reload", "check", ...
  int64_t proved = 0;                       // digests of its contents that match the prediction
  int64_t not_covered = 0;                  // parameters without any bytes that could be compared
};

struct GenerateStats {
  int64_t passes = 0;
  int64_t prompt_tokens = 0;  // processed by the model
  int64_t copied_tokens = 0;  // of prompts, copied from a cache instead
  int64_t response_tokens = 0;
};

struct GenerateHooks {
  // Called before every pass; its error ends the call.
  std::function<Status()> poll;
  // A response is complete. Called in the order in which they end, from one thread.
  std::function<void(size_t request, const RolloutResponse&)> on_response;
};

struct Generated {
  std::vector<RolloutResponse> responses;  // in the order of the requests
  GenerateStats stats;
};

// One call at a time.
class Engine {
 public:
  // kUnsupported for a bundle without a CPU plan, for one made for other numbers than the override
  // requires (with the numbers), and for a model that the trainer does not run; kFindings when its
  // weights are not the expected ones; kCorrupt for a plan that does not fit its own bundle; kLimit
  // for memory. `poll` can stop the loading. The bundle is read under its shared lock, which is
  // then released.
  static Result<Engine> Load(const EngineOptions& options,
                             const std::function<Status()>& poll = nullptr);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const EngineFacts& facts() const;

  // kUsage, naming the request, for an empty prompt, one longer than seq_len - 1, ids that the
  // model does not have, and parameters out of range. A response ends with a stop token, at
  // max_tokens, or when prompt and response have seq_len tokens. kCorrupt when logits are not
  // finite.
  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks = {});

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The checks of Load before it reads weights: whether this engine can run the bundle at all. Facts
// about the weights are not set.
Result<EngineFacts> CheckEngineBundle(const EngineOptions& options);

// The checks of Load after loading: version and digest; also applied to a worker's report.
// kFindings: "stale weights: ...".
Status CheckLoaded(const ExpectedWeights& expect, const EngineFacts& loaded,
                   const std::string& bundle);

// The checks of Generate on its requests; also before they are sent to workers.
Status CheckRequests(std::span<const RolloutRequest> requests, const EngineFacts& facts);
// Checks the response of another process, which is used as if the trainer had made it: kCorrupt for
// an invalid one.
Status CheckResponse(const RolloutResponse& response, const RolloutRequest& request,
                     const EngineFacts& facts);

}  // namespace nxdkit::trainer
