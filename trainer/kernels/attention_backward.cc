// The backward pass of attention. With w = softmax(s), s = q k^T * scale:
//
//   ds = w * (dout v^T - sum(dout * out)) * scale     row by row
//   dq = ds k,   dk = ds^T q,   dv = w^T dout
#include <cmath>
#include <tuple>

#include "trainer/kernels/attention_family.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kBlock = 96;  // query rows whose weights are held at once: whole tiles

// scores -> weights, dweights -> gradient of the scores, for the columns that the row sees.
NXDKIT_CLONES void Gradient(float* scores, float* dweights, int64_t count, float scale, float lse,
                            float dot) {
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = Exp(scores[i] * scale - lse);
    dweights[i] = scores[i] * (dweights[i] - dot) * scale;
  }
}

NXDKIT_CLONES float RowDot(const float* a, const float* b, int64_t count) {
  return Dot(a, b, count);
}

// Rows of a product in the layout of another's transposed operand: pairs of rows, column by column.
void Transpose(F32, const float* rows, int64_t, int64_t columns, float* to) {
  std::copy_n(rows, columns, to);
}
NXDKIT_CLONES void InterleavePair(const uint16_t* even, const uint16_t* odd, int64_t columns,
                                  uint16_t* to) {
  for (int64_t i = 0; i < columns; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}
void Transpose(Bf16, const uint16_t* rows, int64_t stride, int64_t columns, uint16_t* to) {
  InterleavePair(rows, rows + stride, columns, to);
}

template <typename Type>
struct Workspace {
  using Element = typename Type::Element;
  KeyPanels<Type> keys, values;
  float *dkeys = nullptr, *dvalues = nullptr;           // [columns + 6, wide]
  Element *q = nullptr, *dout = nullptr;                // [block, depth]
  Element *q_panels = nullptr, *dout_panels = nullptr;  // [panel of D]: b [block, D]
  float *scores = nullptr, *dweights = nullptr;         // [6, stride]
  Element *weights = nullptr, *dscores = nullptr;       // the same, as operands
  // The same for all rows of the block, as transposed operands of dv and dk.
  Element *weights_t = nullptr, *dscores_t = nullptr;
  float* dq = nullptr;  // [6, wide]
  int64_t stride = 0;

  static Workspace Make(Arena& arena, const Family& family, int64_t width) {
    Workspace w;
    w.keys = KeyPanels<Type>::Take(arena, family, width, true, true);
    w.values = KeyPanels<Type>::Take(arena, family, width, true, false);
    w.stride = family.columns;
    const int64_t wide = w.keys.wide();
    for (float** to : {&w.dkeys, &w.dvalues}) *to = arena.Take<float>((w.stride + kMaxRows) * wide);
    for (Element** to : {&w.q, &w.dout}) *to = arena.Take<Element>(kBlock * w.keys.depth());
    for (Element** to : {&w.q_panels, &w.dout_panels}) *to = arena.Take<Element>(kBlock * wide);
    for (float** to : {&w.scores, &w.dweights}) *to = arena.Take<float>(kMaxRows * w.stride);
    for (Element** to : {&w.weights, &w.dscores}) *to = arena.Take<Element>(kMaxRows * w.stride);
    for (Element** to : {&w.weights_t, &w.dscores_t}) *to = arena.Take<Element>(kBlock * w.stride);
    w.dq = arena.Take<float>(kMaxRows * wide);
    return w;
  }
};

// The gradients of one head in one family.
template <typename Type>
class HeadBackward {
 public:
  using Element = typename Type::Element;
  HeadBackward(const AttentionShape& shape, const Workspace<Type>& w, int64_t head, const float* q,
               const float* out, const float* lse, const float* dout, float* dq)
      : shape_(shape),
        w_(w),
        head_(head),
        q_(q + head * shape.width),
        out_(out + head * shape.width),
        lse_(lse),
        dout_(dout + head * shape.width),
        dq_(dq + head * shape.width),
        scale_(1.0f / std::sqrt(static_cast<float>(shape.width))) {}

  void Run(const Member& member) {
    for (int64_t first = 0; first < member.tokens; first += kBlock)
      Block(member, first, std::min(kBlock, member.tokens - first));
  }

 private:
  void Block(const Member& member, int64_t first, int64_t rows) {
    const int64_t t = member.start + first;
    const int64_t depth = w_.keys.depth();
    for (int64_t r = 0; r < rows; ++r) {
      ToElements(q_ + (t + r) * shape_.q_stride, shape_.width, w_.q + r * depth);
      ToElements(dout_ + (t + r) * shape_.out_stride, shape_.width, w_.dout + r * depth);
    }
    for (int64_t d = 0; d < shape_.width; d += kPanel) {
      const int64_t columns = std::min(kPanel, shape_.width - d);
      PackStraight<Type>(columns, rows, w_.q + d, depth, w_.q_panels + d * kBlock);
      PackStraight<Type>(columns, rows, w_.dout + d, depth, w_.dout_panels + d * kBlock);
    }
    const int64_t columns = member.prefix_columns() + first + rows;
    for (int64_t r = 0; r < rows; r += kMaxRows)
      Tile(member, first, r, std::min(kMaxRows, rows - r), columns);
    AddTransposed(member, first, rows, w_.dscores_t, w_.q_panels, w_.dkeys);
    AddTransposed(member, first, rows, w_.weights_t, w_.dout_panels, w_.dvalues);
  }

  // Rows [r, r + rows) of the block that begins at `first`; zero up to `columns` where nothing is
  // seen.
  void Tile(const Member& member, int64_t first, int64_t r, int64_t rows, int64_t columns) {
    const int64_t visible = first + r + rows;
    const int64_t t = member.start + first + r;
    w_.keys.Scores(member, rows, w_.q + r * w_.keys.depth(), visible, w_.scores, w_.stride);
    w_.values.Scores(member, rows, w_.dout + r * w_.keys.depth(), visible, w_.dweights, w_.stride);
    for (int64_t i = 0; i < rows; ++i) {
      float* scores = w_.scores + i * w_.stride;
      float* dweights = w_.dweights + i * w_.stride;
      const Seen seen(member, first + r + i, shape_.window);
      const float lse = lse_[(t + i) * shape_.heads + head_];
      const int64_t at = (t + i) * shape_.out_stride;
      const float dot = RowDot(dout_ + at, out_ + at, shape_.width);
      Gradient(scores + seen.prefix_from, dweights + seen.prefix_from,
               seen.prefix - seen.prefix_from, scale_, lse, dot);
      Gradient(scores + seen.own_from, dweights + seen.own_from, seen.own_end - seen.own_from,
               scale_, lse, dot);
      for (float* row : {scores, dweights})
        seen.ForHidden(RoundUp(columns, Type::kStep),
                       [&](int64_t from, int64_t to) { std::fill(row + from, row + to, 0.0f); });
    }
    Operands(r, rows, columns);
    w_.keys.Mix(member, rows, w_.dscores, w_.stride, visible, w_.dq);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(w_.dq + i * w_.keys.wide(), shape_.width, dq_ + (t + i) * shape_.q_stride);
  }

  void Operands(int64_t r, int64_t rows, int64_t columns) {
    const int64_t whole = RoundUp(columns, Type::kStep);
    for (const auto& [from, to, transposed] : {std::tuple(w_.scores, w_.weights, w_.weights_t),
                                               std::tuple(w_.dweights, w_.dscores, w_.dscores_t)}) {
      for (int64_t i = 0; i < rows; ++i)
        ToElements(from + i * w_.stride, whole, to + i * w_.stride);
      if (rows % Type::kStep != 0) std::fill_n(to + rows * w_.stride, whole, Element());
      for (int64_t i = 0; i < rows; i += Type::kStep)
        Transpose(Type(), to + i * w_.stride, w_.stride, columns, transposed + (r + i) * w_.stride);
    }
  }

  // sums [columns, wide] += rows^T b, for all columns that a row of the block sees.
  void AddTransposed(const Member& member, int64_t first, int64_t rows, const Element* rows_t,
                     const Element* panels, float* sums) {
    for (int64_t c = 0; c < member.prefix; c += kMaxRows)
      AddColumns(c, c, std::min(kMaxRows, member.prefix - c), 0, rows, rows_t, panels, sums);
    for (int64_t c = 0; c < first + rows; c += kMaxRows) {
      const int64_t from = std::max<int64_t>(0, c - first) / Type::kStep * Type::kStep;
      AddColumns(member.prefix_columns() + c, member.column + c,
                 std::min(kMaxRows, first + rows - c), from, rows, rows_t, panels, sums);
    }
  }

  // Adds rows [from, rows), of which `from` is the first that sees these columns.
  void AddColumns(int64_t column, int64_t to, int64_t count, int64_t from, int64_t rows,
                  const Element* rows_t, const Element* panels, float* sums) {
    const TileRows<Type> a{rows_t + from * w_.stride + column * Type::kStep, Type::kStep,
                           w_.stride * Type::kStep};
    const int64_t depth = RoundUp(rows, Type::kStep) - from;
    for (int64_t d = 0; d < shape_.width; d += kPanel)
      RunTile(Type(), count, a, panels + d * kBlock + from * kPanel, depth,
              sums + to * w_.keys.wide() + d, w_.keys.wide(), true);
  }

  const AttentionShape& shape_;
  const Workspace<Type>& w_;
  const int64_t head_;
  const float *q_, *out_, *lse_, *dout_;
  float* dq_;
  const float scale_;
};

void TakeSums(const Family& family, const float* sums, int64_t wide, int64_t width, float* to,
              int64_t stride) {
  for (const Member& member : family.members)
    for (int64_t t = 0; t < member.tokens; ++t)
      std::copy_n(sums + (member.column + t) * wide, width, to + (member.start + t) * stride);
}

template <typename Type>
void Backward(const AttentionShape& shape, const Sequences& sequences, const float* q,
              const float* k, const float* v, const float* out, const float* lse, const float* dout,
              float* dq, float* dk, float* dv, AttentionScratch& scratch) {
  const int64_t group = shape.heads / shape.kv_heads;
  ForEachTask(shape, sequences, scratch, [&](const Family& family, int64_t kv, auto& memory) {
    Workspace<Type> w = Arena::Fill(
        memory, [&](Arena& arena) { return Workspace<Type>::Make(arena, family, shape.width); });
    w.keys.Make(family, k + kv * shape.width, shape.k_stride);
    w.values.Make(family, v + kv * shape.width, shape.v_stride);
    const int64_t wide = w.keys.wide();
    for (float* sums : {w.dkeys, w.dvalues}) std::fill_n(sums, w.stride * wide, 0.0f);
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
      for (const Member& member : family.members)
        HeadBackward<Type>(shape, w, head, q, out, lse, dout, dq).Run(member);
    TakeSums(family, w.dkeys, wide, shape.width, dk + kv * shape.width, shape.k_stride);
    TakeSums(family, w.dvalues, wide, shape.width, dv + kv * shape.width, shape.v_stride);
  });
}

}  // namespace

void AttentionBackward(const AttentionShape& shape, const Sequences& sequences, const float* q,
                       const float* k, const float* v, const float* out, const float* lse,
                       const float* dout, float* dq, float* dk, float* dv,
                       AttentionScratch& scratch) {
  if (shape.compute == Dtype::kBF16)
    return Backward<Bf16>(shape, sequences, q, k, v, out, lse, dout, dq, dk, dv, scratch);
  Backward<F32>(shape, sequences, q, k, v, out, lse, dout, dq, dk, dv, scratch);
}

}  // namespace nxdkit::trainer
