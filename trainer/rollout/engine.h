// The rollout engine: a bundle with a CPU plan, loaded and run. Tensor-parallel ranks are threads
// of this process; batch size and sequence length are the bundle's, fixed; sequences come and go.
//
// An engine is made anew for every training step: destroy, refresh the bundle's weights, load. What
// a response is follows from the weights and the request alone: the same ids and the same bits of
// log-probabilities in any batch, slot, order, chunk of prompt, number of threads and process, on
// machines with the same instruction sets. Another number of ranks sums in another order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/rollout/weights_version.h"
#include "lib/base/error.h"
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

struct EngineOptions {
  std::string bundle;
  NeuronOverride neuron_override{};
  ExpectedWeights expect{};
  int threads = 1;            // of each rank
  int64_t pass_tokens = 256;  // of one pass through the model; at least the batch size is taken
  bool digest = false;        // tell the digest even if none is expected
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

}  // namespace nxdkit::trainer
