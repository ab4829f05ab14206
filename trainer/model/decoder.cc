#include "trainer/model/decoder.h"

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/comm/reduce.h"
#include "trainer/kernels/elementwise.h"
#include "trainer/kernels/log_prob.h"
#include "trainer/model/layer.h"

namespace nxdkit::trainer {
namespace {

// The number of targets whose logits [targets, V] are held at once, at most about 32 MiB.
int64_t ChunkTargets(int64_t vocab) {
  return std::clamp<int64_t>((int64_t{8} << 20) / vocab, 16, 1024);
}

Status CheckBatch(const Batch& batch, int64_t vocab, int64_t positions) {
  const auto bad = [](const char* what, int64_t value, int64_t limit) {
    return BadUsage("{} {} is not below the model's {}", what, value, limit);
  };
  for (const int32_t id : batch.ids)
    if (id < 0 || id >= vocab) return bad("token id", id, vocab);
  for (const int32_t position : batch.positions)
    if (position < 0 || position >= positions) return bad("position", position, positions);
  for (const Batch::Target& target : batch.targets)
    if (target.label < 0 || target.label >= vocab) return bad("label", target.label, vocab);
  return OkStatus();
}

}  // namespace

struct Decoder::State {
  State(const DecoderConfig& config_in, const DecoderOptions& options_in, Comm& tp_in,
        ParamTable table_in, std::unique_ptr<Comm> key_group_in)
      : config(config_in),
        options(options_in),
        tp(tp_in),
        table(std::move(table_in)),
        key_group(std::move(key_group_in)),
        weights(table, options.compute),
        gradients(options.trainable ? static_cast<size_t>(table.size) : 0),
        rope(config.rope,
             options.max_positions > 0 ? options.max_positions : config.max_positions) {
    states.resize(options.recompute ? 1 : table.layers.size());
  }

  Matrix WeightMatrix(int slot) const {
    const Slot& at = table.at(slot);
    return {weights.at(at), weights.dtype(), at.shape[1], false};
  }
  const float* Vector(int slot) const {
    return slot < 0 ? nullptr : weights.vector(table.at(slot));
  }
  float* Gradient(int slot) {
    return slot < 0 ? nullptr : gradients.data() + table.at(slot).offset;
  }
  LayerWeights WeightsOf(const LayerSlots& slots) const {
    return {WeightMatrix(slots.q),    WeightMatrix(slots.o),    WeightMatrix(slots.gate),
            WeightMatrix(slots.down), Vector(slots.input_norm), Vector(slots.post_norm),
            Vector(slots.q_norm),     Vector(slots.k_norm),     Vector(slots.q_bias),
            Vector(slots.o_bias),     Vector(slots.gate_bias),  Vector(slots.down_bias)};
  }
  LayerGradients GradientsOf(const LayerSlots& slots) {
    return {Gradient(slots.q),         Gradient(slots.o),          Gradient(slots.gate),
            Gradient(slots.down),      Gradient(slots.input_norm), Gradient(slots.post_norm),
            Gradient(slots.q_norm),    Gradient(slots.k_norm),     Gradient(slots.q_bias),
            Gradient(slots.k_bias),    Gradient(slots.v_bias),     Gradient(slots.o_bias),
            Gradient(slots.gate_bias), Gradient(slots.down_bias)};
  }
  LayerContext Context(const Batch& batch, size_t layer) {
    return {config,
            table,
            options.compute,
            tp,
            products,
            rope,
            scratch,
            batch.positions,
            {batch.starts, batch.parents},
            config.windows[layer]};
  }
  // The output matrix: lm_head, or the embedding once more.
  int head() const { return table.lm_head >= 0 ? table.lm_head : table.embedding; }
  int64_t hidden() const { return config.model.config.hidden; }
  int64_t first_row() const { return table.rank * table.vocab; }

  // The residual stream before layer l; kept for every layer if Backward follows.
  float* Stream(size_t layer) { return streams[keeping ? layer : layer % 2].data(); }

  Status RunLayers(const Batch& batch) {
    const int64_t tokens = std::ssize(batch.ids);
    const size_t layers = table.layers.size();
    streams.resize(std::max(streams.size(), keeping ? layers + 1 : 2));
    for (size_t i = 0; i < (keeping ? layers + 1 : 2); ++i) streams[i].Take(tokens * hidden());
    EmbeddingForward(batch.ids, first_row(), table.vocab, hidden(), weights.dtype(),
                     weights.at(table.at(table.embedding)), Stream(0));
    NXDKIT_TRY(AllReduceSum(tp, std::span(Stream(0), static_cast<size_t>(tokens * hidden()))));
    for (size_t l = 0; l < layers; ++l)
      NXDKIT_TRY(LayerForward(Context(batch, l), WeightsOf(table.layers[l]), Stream(l),
                              Stream(l + 1), states[options.recompute || !keeping ? 0 : l]));
    RmsNormForward({tokens, 1, hidden(), hidden()}, Stream(layers), Vector(table.final_norm),
                   config.rms_eps, normed.Take(tokens * hidden()), final_rstd.Take(tokens));
    return OkStatus();
  }

  // Gathers the head's input: the last hidden states of the targets.
  void GatherRows(const Batch& batch) {
    const int64_t targets = std::ssize(batch.targets);
    float* gathered = rows.Take(targets * hidden());
    for (int64_t i = 0; i < targets; ++i)
      std::copy_n(normed.data() + batch.targets[static_cast<size_t>(i)].token * hidden(), hidden(),
                  gathered + i * hidden());
  }

  Status MakeStatistics(const Batch& batch, float temperature_in) {
    temperature = temperature_in;
    const int64_t targets = std::ssize(batch.targets);
    labels.clear();
    for (const Batch::Target& target : batch.targets) labels.push_back(target.label);
    rows_operand.Make(options.compute, rows.data(), targets, hidden());
    statistics.resize(static_cast<size_t>(targets));
    kept = 0;
    const int64_t chunk = ChunkTargets(table.vocab);
    const int64_t row_bytes = table.vocab * ElementBytes(options.compute);
    for (int64_t first = 0; first < targets; first += chunk) {
      const int64_t count = std::min(chunk, targets - first);
      NXDKIT_TRY(Logits(first, count));
      mine.resize(static_cast<size_t>(count));
      ShardLogProbs(count, table.vocab, logits.data(), labels.data() + first, first_row(),
                    temperature, mine.data());
      all.resize(mine.size() * static_cast<size_t>(tp.size()));
      NXDKIT_TRY(
          tp.AllGather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all))));
      CombineShards(count, table.vocab, tp.size(), all.data(), labels.data() + first,
                    statistics.data() + first);
      if (!keeping || (first + count) * row_bytes > options.kept_bytes) continue;
      if (kept == dlogits_kept.size()) dlogits_kept.emplace_back();
      LogitGradient(dlogits_kept[kept++], first, count);
    }
    return OkStatus();
  }

  // Every rank holds the whole score and all hidden states: nothing is summed over ranks.
  void MakeScores(std::span<float> scores) {
    const float bias = table.score_bias < 0 ? 0 : *Vector(table.score_bias);
    ScoreForward(std::ssize(scores), hidden(), rows.data(), Vector(table.score), bias,
                 scores.data());
  }

  // Sets drow [targets, H] to the gradient by the rows.
  Status HeadBackward(std::span<const float> gradient, float* drow) {
    const int64_t targets = std::ssize(gradient);
    // The gradient of the loss scales whole rows, applied to the narrower of the products'
    // operands.
    ScaleRows(targets, hidden(), gradient.data(), rows.data(), scaled.Take(targets * hidden()));
    scaled_operand.Make(options.compute, scaled.data(), targets, hidden());
    const int64_t chunk = ChunkTargets(table.vocab);
    for (int64_t first = 0; first < targets; first += chunk) {
      const int64_t count = std::min(chunk, targets - first);
      const size_t index = static_cast<size_t>(first / chunk);
      if (index >= kept) NXDKIT_TRY(Logits(first, count));
      const Matrix dlogits = index < kept ? dlogits_kept[index].matrix()
                                          : LogitGradient(dlogits_operand, first, count);
      NXDKIT_TRY(products.Multiply(count, hidden(), table.vocab, dlogits, WeightMatrix(head()),
                                   drow + first * hidden(), hidden(), false));
      NXDKIT_TRY(products.Multiply(table.vocab, hidden(), count, Transposed(dlogits),
                                   Part(scaled_operand, first), Gradient(head()), hidden(), true));
    }
    ScaleRows(targets, hidden(), gradient.data(), drow, drow);
    return AllReduceSum(tp, std::span(drow, static_cast<size_t>(targets * hidden())));
  }

  void ScoresBackward(std::span<const float> gradient, float* drow) {
    const int64_t targets = std::ssize(gradient);
    ScoreBackward(targets, hidden(), rows.data(), Vector(table.score), gradient.data(), drow,
                  Gradient(table.score));
    if (table.score_bias >= 0)
      AddRowSums(targets, 1, 1, gradient.data(), Gradient(table.score_bias));
  }

  Status Logits(int64_t first, int64_t count) {
    return products.Multiply(count, table.vocab, hidden(), Part(rows_operand, first),
                             Transposed(WeightMatrix(head())), logits.Take(count * table.vocab),
                             table.vocab, false);
  }

  // The rows of an operand from `first` on.
  static Matrix Part(const Operand& operand, int64_t first) {
    Matrix part = operand.matrix();
    part.data =
        static_cast<const std::byte*>(part.data) + first * part.stride * ElementBytes(part.dtype);
    return part;
  }

  // The gradient of the log-probabilities by the logits just computed.
  Matrix LogitGradient(Operand& to, int64_t first, int64_t count) {
    return to.Make(options.compute, count, table.vocab, [&](auto* out) {
      LogProbBackward(count, table.vocab, logits.data(), labels.data() + first, first_row(),
                      temperature, statistics.data() + first, out);
    });
  }

  const DecoderConfig& config;
  const DecoderOptions options;
  Comm& tp;
  const ParamTable table;
  const std::unique_ptr<Comm> key_group;
  Weights weights;
  std::vector<float> gradients;
  const RopeTable rope;
  MatrixEngine products;
  LayerScratch scratch;

  bool keeping = false;
  float temperature = 1;
  std::vector<Array<float>> streams;
  std::vector<LayerState> states;
  Array<float> normed, final_rstd, rows, scaled, logits, drows, dnormed, dstream;
  Operand rows_operand, scaled_operand, dlogits_operand;
  std::vector<Operand> dlogits_kept;  // for the first chunks of targets
  size_t kept = 0;
  std::vector<int32_t> labels;
  std::vector<ShardStatistics> mine, all;
  std::vector<TokenStatistics> statistics;
};

Result<Decoder> Decoder::Make(const DecoderConfig& config, const DecoderOptions& options,
                              Comm& tp) {
  NXDKIT_ASSIGN(ParamTable table, MakeParamTable(config.model, tp.size(), tp.rank()));
  NXDKIT_ASSIGN(std::unique_ptr<Comm> key_group,
                tp.Split(static_cast<int>(table.key_group), tp.rank()));
  try {
    return Decoder(
        std::make_unique<State>(config, options, tp, std::move(table), std::move(key_group)));
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the model's weights and gradients");
  }
}

Decoder::Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

const ParamTable& Decoder::table() const { return state_->table; }
Weights& Decoder::weights() { return state_->weights; }
std::span<float> Decoder::gradients() { return state_->gradients; }

Status Decoder::Forward(const Batch& batch, float temperature, bool keep, std::span<float> outputs,
                        float* entropies) {
  State& s = *state_;
  NXDKIT_TRY(CheckBatch(batch, s.config.model.config.vocab, s.rope.positions()));
  s.keeping = keep;
  NXDKIT_TRY(s.RunLayers(batch));
  s.GatherRows(batch);
  if (s.table.score >= 0) {
    s.MakeScores(outputs);
    return OkStatus();
  }
  NXDKIT_TRY(s.MakeStatistics(batch, temperature));
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    outputs[i] = s.statistics[i].log_prob;
    if (entropies) entropies[i] = s.statistics[i].entropy;
  }
  return OkStatus();
}

Status Decoder::Backward(const Batch& batch, std::span<const float> gradient,
                         const OnFinal& on_final) {
  State& s = *state_;
  const auto final_from = [&](int slot) {
    return on_final ? on_final(s.table.at(slot).offset) : OkStatus();
  };
  NXDKIT_CHECK(s.keeping && s.options.trainable);
  const int64_t tokens = std::ssize(batch.ids);
  const int64_t hidden = s.hidden();
  const int64_t targets = std::ssize(batch.targets);
  float* drow = s.drows.Take(targets * hidden);
  if (s.table.score >= 0)
    s.ScoresBackward(gradient, drow);
  else
    NXDKIT_TRY(s.HeadBackward(gradient, drow));
  float* dnormed = s.dnormed.Take(tokens * hidden);
  std::fill_n(dnormed, tokens * hidden, 0.0f);
  for (int64_t i = 0; i < targets; ++i) {
    float* to = dnormed + batch.targets[static_cast<size_t>(i)].token * hidden;
    for (int64_t d = 0; d < hidden; ++d) to[d] += drow[i * hidden + d];
  }
  float* dx = s.dstream.Take(tokens * hidden);
  RmsNormBackward({tokens, 1, hidden, hidden}, dnormed, s.Stream(s.table.layers.size()),
                  s.Vector(s.table.final_norm), s.final_rstd.data(), dx, true,
                  s.Gradient(s.table.final_norm));
  NXDKIT_TRY(final_from(s.table.final_norm));
  for (size_t l = s.table.layers.size(); l-- > 0;) {
    const LayerContext context = s.Context(batch, l);
    const LayerWeights weights = s.WeightsOf(s.table.layers[l]);
    LayerState& state = s.states[s.options.recompute ? 0 : l];
    const bool last = l + 1 == s.table.layers.size();  // its state is still in the buffers
    if (s.options.recompute && !last)
      NXDKIT_TRY(LayerForward(context, weights, s.Stream(l), nullptr, state));
    NXDKIT_TRY(
        LayerBackward(context, weights, s.Stream(l), state, dx, s.GradientsOf(s.table.layers[l])));
    NXDKIT_TRY(final_from(s.table.layers[l].input_norm));
  }
  EmbeddingBackward(batch.ids, s.first_row(), s.table.vocab, hidden, dx,
                    s.Gradient(s.table.embedding));
  return OkStatus();
}

Status Decoder::SumPartialGradients(const FlatRange& range) {
  State& s = *state_;
  for (const Slot& slot : s.table.slots) {
    if (!slot.partial_gradient || slot.offset < range.begin || slot.offset >= range.end) continue;
    Comm& group = slot.copies == s.tp.size() ? s.tp : *s.key_group;
    NXDKIT_TRY(AllReduceSum(
        group, std::span(s.gradients.data() + slot.offset, static_cast<size_t>(slot.size()))));
  }
  return OkStatus();
}

}  // namespace nxdkit::trainer
