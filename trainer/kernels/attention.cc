#include "trainer/kernels/attention.h"

#include <cmath>

#include "trainer/kernels/attention_family.h"

namespace nxdkit::trainer {
namespace {

// One row. Scores become exponentials, then weights, with zeros up to `end` where the row sees
// nothing. Returns the log of the sum.
NXDKIT_CLONES float Weigh(float* scores, const Seen& seen, int64_t end, float scale) {
  float* const before = scores + seen.prefix_from;
  float* const own = scores + seen.own_from;
  const int64_t prefix = seen.prefix - seen.prefix_from;
  const int64_t visible = seen.own_end - seen.own_from;
  const float highest = Max(own, visible);
  const float highest_before = prefix > 0 ? Max(before, prefix) : highest;
  const float max = (highest_before > highest ? highest_before : highest) * scale;
  for (int64_t i = 0; i < prefix; ++i) before[i] = Exp(before[i] * scale - max);
  for (int64_t i = 0; i < visible; ++i) own[i] = Exp(own[i] * scale - max);
  const float sum = Sum(before, prefix) + Sum(own, visible);
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < prefix; ++i) before[i] *= inverse;
  for (int64_t i = 0; i < visible; ++i) own[i] *= inverse;
  seen.ForHidden(end, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) scores[i] = 0;
  });
  return max + std::log(sum);
}

template <typename Type>
struct Workspace {
  using Element = typename Type::Element;
  KeyPanels<Type> keys, values;
  Element* q = nullptr;        // [6, depth]
  float* scores = nullptr;     // [6, stride]
  Element* weights = nullptr;  // the same
  float* out = nullptr;        // [6, wide]
  int64_t stride = 0;

  static Workspace Make(Arena& arena, const Family& family, int64_t width) {
    Workspace w;
    w.keys = KeyPanels<Type>::Take(arena, family, width, true, false);
    w.values = KeyPanels<Type>::Take(arena, family, width, false, true);
    w.stride = family.columns;
    w.q = arena.Take<Element>(kMaxRows * w.keys.depth());
    w.scores = arena.Take<float>(kMaxRows * w.stride);
    w.weights = arena.Take<Element>(kMaxRows * w.stride);
    w.out = arena.Take<float>(kMaxRows * w.values.wide());
    return w;
  }
};

// Rows [first, first + rows) of a member, for one head.
template <typename Type>
void ForwardTile(const AttentionShape& shape, const Workspace<Type>& w, const Member& member,
                 int64_t head, int64_t first, int64_t rows, const float* q, float* out,
                 float* lse) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
  const int64_t visible = first + rows;  // of the last row
  const int64_t end = member.prefix_columns() + RoundUp(visible, Type::kStep);
  const int64_t t = member.start + first;
  for (int64_t r = 0; r < rows; ++r)
    ToElements(q + (t + r) * shape.q_stride + head * shape.width, shape.width,
               w.q + r * w.keys.depth());
  w.keys.Scores(member, rows, w.q, visible, w.scores, w.stride);
  for (int64_t r = 0; r < rows; ++r) {
    float* scores = w.scores + r * w.stride;
    lse[(t + r) * shape.heads + head] =
        Weigh(scores, Seen(member, first + r, shape.window), end, scale);
    ToElements(scores, end, w.weights + r * w.stride);
  }
  w.values.Mix(member, rows, w.weights, w.stride, visible, w.out);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(w.out + r * w.values.wide(), shape.width,
                out + (t + r) * shape.out_stride + head * shape.width);
}

template <typename Type>
void Forward(const AttentionShape& shape, const Sequences& sequences, const float* q,
             const float* k, const float* v, float* out, float* lse, AttentionScratch& scratch) {
  const int64_t group = shape.heads / shape.kv_heads;
  ForEachTask(shape, sequences, scratch, [&](const Family& family, int64_t kv, auto& memory) {
    Workspace<Type> w = Arena::Fill(
        memory, [&](Arena& arena) { return Workspace<Type>::Make(arena, family, shape.width); });
    w.keys.Make(family, k + kv * shape.width, shape.k_stride);
    w.values.Make(family, v + kv * shape.width, shape.v_stride);
    for (const Member& member : family.members)
      for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
        for (int64_t first = 0; first < member.tokens; first += kMaxRows)
          ForwardTile(shape, w, member, head, first, std::min(kMaxRows, member.tokens - first), q,
                      out, lse);
  });
}

}  // namespace

NXDKIT_CLONES float Softmax(float* scores, int64_t count) {
  const float max = Max(scores, count);
  for (int64_t i = 0; i < count; ++i) scores[i] = Exp(scores[i] - max);
  const float sum = Sum(scores, count);
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < count; ++i) scores[i] *= inverse;
  return max + std::log(sum);
}

std::vector<Family> Families(const Sequences& sequences) {
  const size_t count = sequences.starts.size() - 1;
  std::vector<Family> families;
  std::vector<size_t> family_of(count);
  for (size_t s = 0; s < count; ++s) {
    const int32_t parent = sequences.parents.empty() ? -1 : sequences.parents[s];
    family_of[s] = parent < 0 ? families.size() : family_of[static_cast<size_t>(parent)];
    if (parent < 0) families.emplace_back();
    families[family_of[s]].Add(sequences.starts[s], sequences.starts[s + 1]);
  }
  return families;
}

void ToElements(const float* from, int64_t count, float* to) {
  if (from != to) std::copy_n(from, count, to);
}

void ToElements(const float* from, int64_t count, uint16_t* to) {
  ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(from), Dtype::kBF16,
                  reinterpret_cast<std::byte*>(to), count);
}

void AttentionForward(const AttentionShape& shape, const Sequences& sequences, const float* q,
                      const float* k, const float* v, float* out, float* lse,
                      AttentionScratch& scratch) {
  if (shape.compute == Dtype::kBF16)
    return Forward<Bf16>(shape, sequences, q, k, v, out, lse, scratch);
  Forward<F32>(shape, sequences, q, k, v, out, lse, scratch);
}

}  // namespace nxdkit::trainer
