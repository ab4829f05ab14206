// One tensor-parallel rank's part of a decoder-only language model: log-probabilities of given
// tokens, or, of a model with a score head, the scores; and the gradient of any function of them.
// All ranks of the group call the same functions with the same batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/comm.h"
#include "trainer/model/decoder_config.h"
#include "trainer/model/param_table.h"
#include "trainer/model/weights.h"

namespace nxdkit::trainer {

// Sequences packed one after another, without padding. What several sequences begin with can be a
// sequence of its own, which they name as their parent: it is computed once.
struct Batch {
  std::vector<int32_t> ids;        // [T]
  std::vector<int32_t> positions;  // [T], within the sequence
  std::vector<int32_t> starts;     // [sequences + 1], the last is T
  std::vector<int32_t> parents;    // [sequences], -1: none (kernels/attention.h); empty: all -1
  // Whose log-probability is asked: `label` as the token after `token`, in any order. A score is
  // that of `token`, whatever the label.
  struct Target {
    int32_t token = 0;  // index into ids
    int32_t label = 0;
  };
  std::vector<Target> targets;
};

struct DecoderOptions {
  Dtype compute = Dtype::kF32;  // of weights and operands; sums are f32 always
  // Gradient checkpointing: keep each layer's input only and run the layer again going back.
  bool recompute = true;
  // Of gradients by logits that are kept from the forward to the backward pass. What does not fit
  // is computed again, at the cost of one more product with the output matrix.
  int64_t kept_bytes = int64_t{128} << 20;
  int64_t max_positions = 0;  // 0: the config's
  bool trainable = true;      // false: no gradients are kept, Backward may not be called
};

class Decoder {
 public:
  // Collective over `tp`. `config` and `tp` must outlive the decoder. kUnsupported as
  // MakeParamTable.
  static Result<Decoder> Make(const DecoderConfig& config, const DecoderOptions& options, Comm& tp);
  Decoder(Decoder&&) noexcept;
  ~Decoder();

  const ParamTable& table() const;
  Weights& weights();
  // [table().size] f32, added to by Backward; the caller clears them.
  std::span<float> gradients();

  // outputs [targets]: log-probabilities, of logits that are divided by `temperature` first; where
  // `entropies` is not null, also those of the whole distributions. Of a model with a score head
  // the scores, without temperature and entropies. `keep`: Backward will follow. kUsage for ids,
  // positions or labels that the model does not have.
  Status Forward(const Batch& batch, float temperature, bool keep, std::span<float> outputs,
                 float* entropies);
  // `gradient` [targets]: of the loss by each output. After Forward with `keep` and the same batch.
  // Partial gradients are not yet summed over the ranks. It goes from the end of the flat array to
  // its beginning: `on_final`, which may be empty, is told now and then, with ever smaller offsets,
  // from which element on this batch adds nothing any more.
  using OnFinal = std::function<Status(int64_t offset)>;
  Status Backward(const Batch& batch, std::span<const float> gradient,
                  const OnFinal& on_final = nullptr);
  // Once per update for each element, when all Backward are through it: sums over tensor-parallel
  // ranks what each saw only a part of (norms of heads, shared key heads), of the slots that begin
  // in the range.
  Status SumPartialGradients(const FlatRange& range);

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
