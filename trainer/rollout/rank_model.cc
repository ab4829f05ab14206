#include "trainer/rollout/rank_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/comm/reduce.h"
#include "trainer/kernels/elementwise.h"
#include "trainer/kernels/rms_norm.h"

namespace nxdkit::trainer {
namespace {

std::vector<float> Vector(const Weights& weights, const ParamTable& table, int slot) {
  if (slot < 0) return {};
  const float* first = weights.vector(table.at(slot));
  return {first, first + table.at(slot).size()};
}

// The vectors of several slots, concatenated.
std::vector<float> Vectors(const Weights& weights, const ParamTable& table,
                           std::initializer_list<int> slots) {
  std::vector<float> all;
  for (const int slot : slots) {
    const std::vector<float> one = Vector(weights, table, slot);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// The rows of a slot and of those directly after it.
Result<PackedMatrix> Packed(const Weights& weights, const ParamTable& table, int slot,
                            int64_t rows) {
  const Slot& at = table.at(slot);
  return PackedMatrix::Make(rows, at.shape[1],
                            {weights.at(at), weights.dtype(), at.shape[1], false});
}

// Frees the whole pages of elements [first, end), which nobody reads any longer: otherwise the
// model would be in memory twice during packing.
void GiveBack(Weights& weights, int64_t first, int64_t end) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const int64_t element = ElementBytes(weights.dtype());
  const auto at = reinterpret_cast<uintptr_t>(weights.bytes());
  const uintptr_t from = (at + static_cast<uintptr_t>(first * element) + page - 1) / page * page;
  const uintptr_t to = (at + static_cast<uintptr_t>(end * element)) / page * page;
  if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

}  // namespace

Result<RankModel> RankModel::Make(const DecoderConfig& config, const ParamTable& table,
                                  Weights& weights, const Size& size) {
  try {
    RankModel model(config, table, size.positions);
    const Slot& embedding = table.at(table.embedding);
    const std::byte* first = weights.at(embedding);
    model.embedding_dtype_ = weights.dtype();
    model.embedding_.assign(first, first + embedding.size() * ElementBytes(weights.dtype()));
    for (const LayerSlots& slots : table.layers) NXDKIT_TRY(model.PackLayer(weights, slots, size));
    model.final_norm_ = Vector(weights, table, table.final_norm);
    NXDKIT_ASSIGN(
        model.head_,
        Packed(weights, table, table.lm_head >= 0 ? table.lm_head : table.embedding, table.vocab));
    model.weight_bytes_ += model.head_.bytes();
    return model;
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the packed weights of a rank");
  }
}

Status RankModel::PackLayer(Weights& weights, const LayerSlots& slots, const Size& size) {
  const int64_t head = config_->model.config.head_dim;
  Layer layer;
  NXDKIT_ASSIGN(layer.qkv,
                Packed(weights, *table_, slots.q, (table_->heads + 2 * table_->kv_heads) * head));
  NXDKIT_ASSIGN(layer.o, Packed(weights, *table_, slots.o, hidden()));
  NXDKIT_ASSIGN(layer.gate_up, Packed(weights, *table_, slots.gate, 2 * table_->intermediate));
  NXDKIT_ASSIGN(layer.down, Packed(weights, *table_, slots.down, hidden()));
  layer.input_norm = Vector(weights, *table_, slots.input_norm);
  layer.post_norm = Vector(weights, *table_, slots.post_norm);
  layer.q_norm = Vector(weights, *table_, slots.q_norm);
  layer.k_norm = Vector(weights, *table_, slots.k_norm);
  layer.qkv_bias = Vectors(weights, *table_, {slots.q_bias, slots.k_bias, slots.v_bias});
  layer.o_bias = Vector(weights, *table_, slots.o_bias);
  layer.gate_up_bias = Vectors(weights, *table_, {slots.gate_bias, slots.up_bias});
  layer.down_bias = Vector(weights, *table_, slots.down_bias);
  NXDKIT_ASSIGN(layer.cache, KvCache::Make({.slots = size.slots,
                                            .kv_heads = table_->kv_heads,
                                            .positions = size.positions,
                                            .width = head,
                                            .dtype = size.cache,
                                            .window = config_->windows[layers_.size()]}));
  for (const PackedMatrix* matrix : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down})
    weight_bytes_ += matrix->bytes();
  layers_.push_back(std::move(layer));
  const Slot& last = table_->at(slots.down_bias >= 0 ? slots.down_bias : slots.down);
  GiveBack(weights, table_->at(slots.input_norm).offset, last.offset + last.size());
  return OkStatus();
}

int64_t RankModel::cache_bytes() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.cache.bytes();
  return bytes;
}

Status RankModel::Embed(Comm& tp, const Pass& pass) {
  const int64_t tokens = std::ssize(pass.ids);
  float* stream = stream_.Take(tokens * hidden());
  EmbeddingForward(pass.ids, table_->rank * table_->vocab, table_->vocab, hidden(),
                   embedding_dtype_, embedding_.data(), stream);
  return AllReduceSum(tp, std::span(stream, static_cast<size_t>(tokens * hidden())));
}

// stream += sum over the ranks of `share` [tokens, H], and the bias once.
Status RankModel::AddToStream(Comm& tp, int64_t tokens, const std::vector<float>& bias,
                              float* share) {
  NXDKIT_TRY(AllReduceSum(tp, std::span(share, static_cast<size_t>(tokens * hidden()))));
  if (!bias.empty()) AddToRows(tokens, hidden(), bias.data(), share);
  Add(tokens * hidden(), share, stream_.data());
  return OkStatus();
}

Status RankModel::Attention(Comm& tp, const Pass& pass, Layer& layer) {
  const int64_t tokens = std::ssize(pass.ids);
  const int64_t head = config_->model.config.head_dim;
  const int64_t query = table_->heads * head;
  const int64_t key = table_->kv_heads * head;
  const int64_t wide = query + 2 * key;
  const float eps = config_->rms_eps;
  float* rstd = rstd_.Take(tokens * std::max<int64_t>(1, table_->heads));
  float* normed = normed_.Take(tokens * hidden());
  RmsNormForward({tokens, 1, hidden(), hidden()}, stream_.data(), layer.input_norm.data(), eps,
                 normed, rstd);
  float* qkv = qkv_.Take(tokens * wide);
  layer.qkv.Multiply(tokens, normed, hidden(), qkv, wide, narrow_);
  if (!layer.qkv_bias.empty()) AddToRows(tokens, wide, layer.qkv_bias.data(), qkv);
  const Rows queries = {tokens, table_->heads, head, wide};
  const Rows keys = {tokens, table_->kv_heads, head, wide};
  if (!layer.q_norm.empty()) {
    RmsNormForward(queries, qkv, layer.q_norm.data(), eps, qkv, rstd);
    RmsNormForward(keys, qkv + query, layer.k_norm.data(), eps, qkv + query, rstd);
  }
  RopeForward(queries, positions_, rope_, qkv);
  RopeForward(keys, positions_, rope_, qkv + query);
  layer.cache.Store(pass.places, qkv + query, qkv + query + key, wide);
  float* context = context_.Take(tokens * query);
  layer.cache.Attend(pass.places, table_->heads, qkv, wide, context, query);
  float* share = share_.Take(tokens * hidden());
  layer.o.Multiply(tokens, context, query, share, hidden(), narrow_);
  return AddToStream(tp, tokens, layer.o_bias, share);
}

Status RankModel::Mlp(Comm& tp, int64_t tokens, const Layer& layer) {
  const int64_t width = table_->intermediate;
  float* normed = normed_.Take(tokens * hidden());
  RmsNormForward({tokens, 1, hidden(), hidden()}, stream_.data(), layer.post_norm.data(),
                 config_->rms_eps, normed, rstd_.Take(tokens));
  float* gate_up = gate_up_.Take(tokens * 2 * width);
  layer.gate_up.Multiply(tokens, normed, hidden(), gate_up, 2 * width, narrow_);
  if (!layer.gate_up_bias.empty()) AddToRows(tokens, 2 * width, layer.gate_up_bias.data(), gate_up);
  float* act = act_.Take(tokens * width);
  SwigluForward(tokens, width, gate_up, act);
  float* share = share_.Take(tokens * hidden());
  layer.down.Multiply(tokens, act, width, share, hidden(), narrow_);
  return AddToStream(tp, tokens, layer.down_bias, share);
}

Result<const float*> RankModel::Forward(Comm& tp, const Pass& pass) {
  positions_.clear();
  for (const CachePlace& place : pass.places) positions_.push_back(place.position);
  NXDKIT_TRY(Embed(tp, pass));
  for (Layer& layer : layers_) {
    SetThreads(cores_.Threads());
    for (const Pass::Copy& copy : pass.copies)
      layer.cache.CopyPrefix(copy.from, copy.to, copy.positions);
    NXDKIT_TRY(Attention(tp, pass, layer));
    NXDKIT_TRY(Mlp(tp, std::ssize(pass.ids), layer));
  }
  const int64_t wanted = std::ssize(pass.wanted);
  float* rows = share_.Take(wanted * hidden());
  for (int64_t i = 0; i < wanted; ++i)
    std::copy_n(stream_.data() + pass.wanted[static_cast<size_t>(i)].row * hidden(), hidden(),
                rows + i * hidden());
  float* normed = normed_.Take(wanted * hidden());
  RmsNormForward({wanted, 1, hidden(), hidden()}, rows, final_norm_.data(), config_->rms_eps,
                 normed, rstd_.Take(wanted));
  float* logits = logits_.Take(wanted * table_->vocab);
  head_.Multiply(wanted, normed, hidden(), logits, table_->vocab, narrow_);
  return static_cast<const float*>(logits);
}

}  // namespace nxdkit::trainer
