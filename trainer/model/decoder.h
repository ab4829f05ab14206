// One tensor-parallel rank's part of a decoder-only language model: log-probabilities of given
// tokens or, with a score head, scores; and the gradient of any function of them. All ranks of the
// group call the same functions with the same batch.
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

// Sequences packed one after another, without padding. A common beginning of several sequences can
// be a separate sequence, which they name as their parent: it is computed once.
struct Batch {
  std::vector<int32_t> ids;        // [T]
  std::vector<int32_t> positions;  // [T], within the sequence
  std::vector<int32_t> starts;     // [sequences + 1], the last is T
  std::vector<int32_t> parents;    // [sequences], -1: none (kernels/attention.h); empty: all -1
  // A requested log-probability: that of `label` as the token after `token`, in any order. A score
  // is that of `token`, whatever the label.
  struct Target {
    int32_t token = 0;  // index into ids
    int32_t label = 0;
  };
  std::vector<Target> targets;
};

struct DecoderOptions {
  Dtype compute = Dtype::kF32;  // of weights and operands; sums are always f32
  // Gradient checkpointing: keep only each layer's input, and run the layer again in the backward
  // pass.
  bool recompute = true;
  // Memory for gradients by logits that are kept from the forward to the backward pass. Those that
  // do not fit are computed again, at the cost of another product with the output matrix.
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
  // [table().size] f32; Backward adds to them, the caller clears them.
  std::span<float> gradients();

  // outputs [targets]: log-probabilities, from logits divided by `temperature`; `entropies`, if not
  // null, is set to those of the full distributions. With a score head the scores, without
  // temperature and entropies. `keep`: Backward will follow. kUsage for ids, positions or labels
  // that the model does not have.
  Status Forward(const Batch& batch, float temperature, bool keep, std::span<float> outputs,
                 float* entropies);
  // `gradient` [targets]: the gradient of the loss by each output. Call it after Forward with
  // `keep` and the same batch. Partial gradients are not yet summed over the ranks. It proceeds
  // from the end of the flat array to its beginning: `on_final`, which may be empty, is called now
  // and then with decreasing offsets, from which on this batch adds nothing more.
  using OnFinal = std::function<Status(int64_t offset)>;
  Status Backward(const Batch& batch, std::span<const float> gradient,
                  const OnFinal& on_final = nullptr);
  // Called once per update for each element, after every Backward has passed it: sums partial
  // gradients (of head norms and shared key heads) over the tensor-parallel ranks, for the slots
  // that begin in the range.
  Status SumPartialGradients(const FlatRange& range);

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
