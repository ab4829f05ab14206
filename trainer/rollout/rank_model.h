// PRIVATE to trainer/rollout. One rank's share of a model, laid out for generation: packed weights,
// a cache of keys and values for every layer, and the forward pass of any mix of tokens.
//
// All computation on a row (products, norms, rotation, attention over its own cache, sums over
// ranks) has the same bits whatever the other rows are.
#pragma once

#include <vector>

#include "trainer/base/core_share.h"
#include "trainer/base/parallel.h"
#include "trainer/comm/comm.h"
#include "trainer/kernels/kv_cache.h"
#include "trainer/kernels/packed_matrix.h"
#include "trainer/kernels/rope.h"
#include "trainer/model/array.h"
#include "trainer/model/decoder_config.h"
#include "trainer/model/param_table.h"
#include "trainer/model/weights.h"
#include "trainer/rollout/schedule.h"

namespace nxdkit::trainer {

// Used by one thread at a time.
class RankModel {
 public:
  struct Size {
    int64_t slots = 0;
    int64_t positions = 0;
    Dtype cache = Dtype::kBF16;
  };
  // Packs the weights, and frees the memory of each layer before the next: the contents of
  // `weights` are undefined afterwards. `config` and `table` must outlive the model. kLimit when
  // there is too little memory.
  static Result<RankModel> Make(const DecoderConfig& config, const ParamTable& table,
                                Weights& weights, const Size& size);

  // Collective over `tp`. Leaves the logits [pass.wanted, columns] of this rank's vocabulary rows,
  // until the next call.
  Result<const float*> Forward(Comm& tp, const Pass& pass);

  int64_t weight_bytes() const { return weight_bytes_; }  // read per token
  int64_t cache_bytes() const;

 private:
  struct Layer {
    PackedMatrix qkv, o, gate_up, down;
    // Empty if the model has none.
    std::vector<float> input_norm, post_norm, q_norm, k_norm;
    std::vector<float> qkv_bias, o_bias, gate_up_bias, down_bias;
    KvCache cache;
  };
  RankModel(const DecoderConfig& config, const ParamTable& table, int64_t positions)
      : config_(&config), table_(&table), rope_(config.rope, positions), cores_(MaxThreads()) {}
  Status PackLayer(Weights& weights, const LayerSlots& slots, const Size& size);
  Status Embed(Comm& tp, const Pass& pass);
  Status Attention(Comm& tp, const Pass& pass, Layer& layer);
  Status Mlp(Comm& tp, int64_t tokens, const Layer& layer);
  Status AddToStream(Comm& tp, int64_t tokens, const std::vector<float>& bias, float* share);
  int64_t hidden() const { return config_->model.config.hidden; }

  const DecoderConfig* config_;
  const ParamTable* table_;
  RopeTable rope_;
  std::vector<Layer> layers_;
  std::vector<std::byte> embedding_;  // this rank's rows, as stored
  Dtype embedding_dtype_ = Dtype::kF32;
  std::vector<float> final_norm_;
  PackedMatrix head_;
  int64_t weight_bytes_ = 0;

  Array<float> stream_, normed_, rstd_, qkv_, context_, gate_up_, act_, share_, logits_;
  std::vector<uint16_t> narrow_;
  std::vector<int32_t> positions_;
  CoreShare cores_;  // for the thread that created it
};

}  // namespace nxdkit::trainer
