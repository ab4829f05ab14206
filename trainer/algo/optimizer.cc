#include "trainer/algo/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/base/simd.h"
#include "trainer/algo/names.h"
#include "trainer/base/parallel.h"
#include "trainer/base/rng.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<OptimizerType> kOptimizerNames[] = {
    {"adamw", OptimizerType::kAdamW},
    {"adamw_bf16", OptimizerType::kAdamWBf16},
    {"adamw_bf16_fixed", OptimizerType::kAdamWBf16Fixed},
};

constexpr int64_t kPiece = 1 << 16;  // elements; a multiple of kGroup
constexpr double kNormEpsilon = 1e-6;

// A part of a slot.
struct Piece {
  size_t slot = 0;
  int64_t first = 0;   // within the slot
  int64_t offset = 0;  // within the flat arrays
  int64_t count = 0;
  size_t number = 0;  // among all of the table
};

int64_t CountPieces(const Slot& slot) { return (slot.size() + kPiece - 1) / kPiece; }

size_t CountPieces(const ParamTable& table) {
  int64_t count = 0;
  for (const Slot& slot : table.slots) count += CountPieces(slot);
  return static_cast<size_t>(count);
}

// The pieces that begin in `range`.
std::vector<Piece> PiecesIn(const ParamTable& table, const FlatRange& range) {
  std::vector<Piece> pieces;
  size_t number = 0;
  for (size_t s = 0; s < table.slots.size(); ++s) {
    const Slot& slot = table.slots[s];
    const int64_t size = slot.size();
    if (slot.offset >= range.end || slot.offset + size <= range.begin) {
      number += static_cast<size_t>(CountPieces(slot));
      continue;
    }
    for (int64_t first = 0; first < size; first += kPiece, ++number)
      if (slot.offset + first >= range.begin && slot.offset + first < range.end)
        pieces.push_back({s, first, slot.offset + first, std::min(kPiece, size - first), number});
  }
  return pieces;
}

// Calls `body` for the pieces in `range`, with their places in it.
template <typename Body>
void ForPieces(const ParamTable& table, const FlatRange& range, const Body& body) {
  const std::vector<Piece> pieces = PiecesIn(table, range);
  ParallelFor(std::ssize(pieces), 1, [&](int64_t i) {
    Piece piece = pieces[static_cast<size_t>(i)];
    piece.offset -= range.begin;
    body(piece);
  });
}

// The scalars of one update, computed as in the reference: in f64, used in f32.
struct Factors {
  float keep = 1;   // 1 - lr * weight_decay
  float decay = 0;  // lr * weight_decay
  float beta1 = 0;
  float rest1 = 0;  // 1 - beta1
  float beta2 = 0;
  float rest2 = 0;
  float rate = 0;        // lr / (1 - beta1^t)
  float correction = 1;  // sqrt(1 - beta2^t)
  float epsilon = 0;
  float scale = 1;
};

Factors MakeFactors(const AdamOptions& options, const AdamStep& step, int64_t count) {
  const double t = static_cast<double>(count);
  return {.keep = static_cast<float>(1 - step.lr * options.weight_decay),
          .decay = static_cast<float>(step.lr * options.weight_decay),
          .beta1 = static_cast<float>(options.beta1),
          .rest1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1 - options.beta2),
          .rate = static_cast<float>(step.lr / (1 - std::pow(options.beta1, t))),
          .correction = static_cast<float>(std::sqrt(1 - std::pow(options.beta2, t))),
          .epsilon = static_cast<float>(options.epsilon),
          .scale = step.scale};
}

// The reference's bf16 optimizer counts its steps in an f32 tensor, so torch computes the bias
// corrections in f32, each operation rounded: reciprocal() * lr for lr / tensor.
void MakeF32Corrections(const AdamStep& step, int64_t count, Factors& f) {
  const auto t = static_cast<float>(count);
  const float first = 1 - std::pow(f.beta1, t);
  const float second = 1 - std::pow(f.beta2, t);
  f.rate = 1 / first * static_cast<float>(step.lr);
  f.correction = std::sqrt(second);
}

NXDKIT_INLINE float Wide(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest even; the only NaN that arithmetic produces stays one.
NXDKIT_INLINE uint16_t Nearest(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
NXDKIT_INLINE float Rounded(float value) { return Wide(Nearest(value)); }

// Rounds away from zero with a probability equal to the fraction cut off; `random` has 16 bits.
NXDKIT_INLINE uint16_t Stochastic(float value, uint32_t random) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + random) >> 16);
}

NXDKIT_CLONES void StepF32(Factors f, int64_t count, const float* __restrict gradient,
                           float* __restrict m, float* __restrict v, float* __restrict weight) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * f.scale;
    const float m1 = f.beta1 * m[i] + f.rest1 * g;
    const float v1 = f.beta2 * v[i] + f.rest2 * g * g;
    m[i] = m1;
    v[i] = v1;
    weight[i] = weight[i] * f.keep - f.rate * (m1 / (std::sqrt(v1) / f.correction + f.epsilon));
  }
}

NXDKIT_CLONES void NarrowRange(int64_t count, const float* __restrict from,
                               uint16_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = Nearest(from[i]);
}

// One f32 operation per Rounded, in the reference's order.
NXDKIT_CLONES void StepBf16(Factors f, int64_t count, const float* __restrict gradient,
                            uint16_t* __restrict m, uint16_t* __restrict v, uint16_t* __restrict c,
                            uint16_t* __restrict weight) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = Rounded(Rounded(gradient[i]) * f.scale);
    const float p = Rounded(Wide(weight[i]) * f.keep);
    const float m1 = Rounded(Rounded(Wide(m[i]) * f.beta1) + f.rest1 * g);
    const float v1 = Rounded(Rounded(Wide(v[i]) * f.beta2) + f.rest2 * g * g);
    const float d = Rounded(Rounded(Rounded(std::sqrt(v1)) / f.correction) + f.epsilon);
    const float c1 = Rounded(Wide(c[i]) - f.rate * m1 / d);
    const float p1 = Rounded(p + c1);
    const float lost = Rounded(p - p1);
    m[i] = Nearest(m1);
    v[i] = Nearest(v1);
    c[i] = Nearest(c1 + lost);
    weight[i] = Nearest(p1);
  }
}

// Random words for a group of elements: element j gets word j / kWidth of the counter group *
// kWidth + j % kWidth, so that the words of neighbours are adjacent.
constexpr int64_t kWidth = 64;
constexpr int64_t kGroup = 4 * kWidth;

NXDKIT_INLINE void GroupWords(uint32_t block, const PhiloxCounter& at, PhiloxKey key,
                              uint32_t* __restrict words) {
  uint32_t x0[kWidth], x1[kWidth], x2[kWidth], x3[kWidth];
  for (uint32_t l = 0; l < kWidth; ++l) {
    x0[l] = block + l;
    x1[l] = at[1];
    x2[l] = at[2];
    x3[l] = at[3];
  }
  for (int round = 0; round < philox::kRounds; ++round) {
    for (int64_t l = 0; l < kWidth; ++l) {
      const uint64_t a = uint64_t{philox::kMultiplierA} * x0[l];
      const uint64_t b = uint64_t{philox::kMultiplierB} * x2[l];
      x0[l] = static_cast<uint32_t>(b >> 32) ^ x1[l] ^ key[0];
      x2[l] = static_cast<uint32_t>(a >> 32) ^ x3[l] ^ key[1];
      x1[l] = static_cast<uint32_t>(b);
      x3[l] = static_cast<uint32_t>(a);
    }
    key[0] += philox::kWeylA;
    key[1] += philox::kWeylB;
  }
  for (int64_t l = 0; l < kWidth; ++l) {
    words[l] = x0[l];
    words[kWidth + l] = x1[l];
    words[2 * kWidth + l] = x2[l];
    words[3 * kWidth + l] = x3[l];
  }
}

NXDKIT_CLONES void StepBf16Fixed(Factors f, int64_t first, int64_t count, PhiloxCounter at,
                                 PhiloxKey key, const float* __restrict gradient,
                                 uint16_t* __restrict m, uint16_t* __restrict v,
                                 uint16_t* __restrict c, uint16_t* __restrict weight) {
  uint32_t words[kGroup];
  for (int64_t begin = 0; begin < count; begin += kGroup) {
    GroupWords(static_cast<uint32_t>((first + begin) / 4), at, key, words);
    const int64_t size = std::min(kGroup, count - begin);
    for (int64_t j = 0; j < size; ++j) {
      const int64_t i = begin + j;
      const float g = gradient[i] * f.scale;
      const float p = Wide(weight[i]);
      const float m1 = f.beta1 * Wide(m[i]) + f.rest1 * g;
      const float v1 = f.beta2 * Wide(v[i]) + f.rest2 * g * g;
      const float old = Wide(c[i]);
      // Added to c, not to p + c: that sum would lose the low bits of the change.
      const float change =
          f.rate * (m1 / (std::sqrt(v1) / f.correction + f.epsilon)) + f.decay * (p + old);
      const float carry = old - change;
      const float p1 = Rounded(p + carry);
      m[i] = Nearest(m1);
      v[i] = Stochastic(v1, words[j] & 0xffff);
      c[i] = Stochastic((p - p1) + carry, words[j] >> 16);
      weight[i] = Nearest(p1);
    }
  }
}

NXDKIT_CLONES double SumOfSquares(int64_t count, const float* values) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k)
      lanes[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

}  // namespace

Result<OptimizerType> ParseOptimizerType(std::string_view name) {
  return FindNamed(kOptimizerNames, "worker.actor.optim.strategy", name);
}

// Cuts between whole pieces, so that every element is treated as if nothing were cut.
std::vector<FlatRange> CutForOptimizer(const ParamTable& table, const FlatRange& part, int ranks) {
  const std::vector<Piece> pieces = PiecesIn(table, part);
  std::vector<FlatRange> ranges;
  size_t next = 0;
  for (int r = 0; r < ranks; ++r) {
    const int64_t begin = ranges.empty() ? part.begin : ranges.back().end;
    const int64_t wanted =
        part.begin + part.size() / ranks * (r + 1) + part.size() % ranks * (r + 1) / ranks;
    // A piece belongs to the rank that contains its middle.
    while (next < pieces.size() && pieces[next].offset + pieces[next].count / 2 < wanted) ++next;
    const bool is_last = r + 1 == ranks || next == pieces.size();
    ranges.push_back({begin, is_last ? part.end : pieces[next].offset});
  }
  return ranges;
}

AdamState MakeAdamState(const FlatRange& range) {
  const size_t size = static_cast<size_t>(range.size());
  return {range, 0, std::vector<float>(size), std::vector<float>(size)};
}

AdamBf16State MakeAdamBf16State(const FlatRange& range) {
  const std::vector<uint16_t> zeros(static_cast<size_t>(range.size()));
  return {range, 0, zeros, zeros, zeros};
}

void UpdateAdamW(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                 std::span<const float> gradient, AdamState& state, std::span<float> master,
                 std::span<uint16_t> narrow) {
  const Factors factors = MakeFactors(options, step, ++state.step);
  ForPieces(table, state.range, [&](const Piece& piece) {
    const int64_t at = piece.offset;
    StepF32(factors, piece.count, gradient.data() + at, state.m.data() + at, state.v.data() + at,
            master.data() + at);
    if (!narrow.empty()) NarrowRange(piece.count, master.data() + at, narrow.data() + at);
  });
}

void UpdateAdamWBf16(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                     std::span<const float> gradient, AdamBf16State& state,
                     std::span<uint16_t> weights) {
  Factors factors = MakeFactors(options, step, ++state.step);
  MakeF32Corrections(step, state.step, factors);
  ForPieces(table, state.range, [&](const Piece& piece) {
    const int64_t at = piece.offset;
    StepBf16(factors, piece.count, gradient.data() + at, state.m.data() + at, state.v.data() + at,
             state.c.data() + at, weights.data() + at);
  });
}

void UpdateAdamWBf16Fixed(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                          uint64_t seed, std::span<const float> gradient, AdamBf16State& state,
                          std::span<uint16_t> weights) {
  const Factors factors = MakeFactors(options, step, ++state.step);
  const PhiloxKey key = MakeKey(seed, RandomUse::kRounding);
  ForPieces(table, state.range, [&](const Piece& piece) {
    // Ranks that hold copies make the same cut, so their bits are the same.
    const Slot& slot = table.slots[piece.slot];
    const PhiloxCounter place = {0, static_cast<uint32_t>(slot.cut_begin), slot.param,
                                 static_cast<uint32_t>(state.step)};
    const int64_t at = piece.offset;
    StepBf16Fixed(factors, piece.first, piece.count, place, key, gradient.data() + at,
                  state.m.data() + at, state.v.data() + at, state.c.data() + at,
                  weights.data() + at);
  });
}

std::vector<double> SquaredNormTerms(const ParamTable& table, std::span<const FlatRange> ranges,
                                     std::span<const float> gradients) {
  std::vector<double> terms(CountPieces(table));
  for (const FlatRange& range : ranges)
    ForPieces(table, range, [&](const Piece& piece) {
      terms[piece.number] =
          SumOfSquares(piece.count, gradients.data() + range.begin + piece.offset) /
          table.slots[piece.slot].copies;
    });
  return terms;
}

double SumOfTerms(std::span<const double> terms) {
  double total = 0;
  for (const double term : terms) total += term;
  return total;
}

GradientClip ClipGradient(double squared_norm, double max_norm) {
  GradientClip clip;
  clip.norm = std::sqrt(squared_norm);
  clip.skip = !std::isfinite(clip.norm);
  if (!clip.skip)
    clip.scale = static_cast<float>(std::min(1.0, max_norm / (clip.norm + kNormEpsilon)));
  return clip;
}

}  // namespace nxdkit::trainer
