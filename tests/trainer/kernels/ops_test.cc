// Every op compared with an independent formula in f64, and its gradient with finite differences of
// that formula.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "tests/trainer/reference.h"
#include "trainer/kernels/attention.h"
#include "trainer/kernels/elementwise.h"
#include "trainer/kernels/log_prob.h"
#include "trainer/kernels/matmul.h"
#include "trainer/kernels/rms_norm.h"
#include "trainer/kernels/rope.h"

namespace nxdkit::trainer {
namespace {

using reference::Matrix;
using reference::Take;
using reference::Vector;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats Random(size_t size, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats values(size);
  for (float& value : values) value = normal(random);
  return values;
}

Doubles Wide(const Floats& values) { return Doubles(values.begin(), values.end()); }
Doubles Flat(const Matrix& values) { return Doubles(values.data(), values.data() + values.size()); }

// The gradient of sum(weights * f(x)) by central differences in f64: exact to about 1e-9.
Doubles Numeric(const std::function<Doubles(const Doubles&)>& f, Doubles x, const Floats& weights) {
  const auto value = [&] {
    const Doubles y = f(x);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  Doubles gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    constexpr double kStep = 1e-5;
    x[i] = at + kStep;
    const double above = value();
    x[i] = at - kStep;
    gradient[i] = (above - value()) / (2 * kStep);
    x[i] = at;
  }
  return gradient;
}

// f32 sums of tens of terms of size one.
constexpr double kTolerance = 2e-5;

void ExpectNear(const Floats& found, const Doubles& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= kTolerance * (1 + std::abs(expected[i])))
        << what << "[" << i << "]: " << found[i] << ", expected " << expected[i];
}

TEST(RmsNorm, ForwardAndGradients) {
  // Three tokens of two heads of 21 in rows of 50, so that strides and partial lanes are covered.
  const Rows rows{3, 2, 21, 50};
  constexpr double kEps = 1e-6;
  const Floats weight = Random(21, 2);
  const Floats x = Random(150, 1);
  const Floats dy = Random(150, 3);
  const auto formula = [&](const Doubles& input, const Doubles& w) {
    Matrix y = Matrix::Zero(3, 50);
    for (int g = 0; g < 2; ++g)
      y.middleCols(g * 21, 21) =
          reference::RmsNorm(Take(input, g * 21, 3, 21, 50), Take(w, 0, 21, 1, 1).col(0), kEps);
    return Flat(y);
  };
  Floats y(150, 0.0f), rstd(6), dx(150, 0.0f), dweight(21, 0.0f);
  RmsNormForward(rows, x.data(), weight.data(), 1e-6f, y.data(), rstd.data());
  ExpectNear(y, formula(Wide(x), Wide(weight)), "y");
  RmsNormBackward(rows, dy.data(), x.data(), weight.data(), rstd.data(), dx.data(), false,
                  dweight.data());
  ExpectNear(dx, Numeric([&](const Doubles& v) { return formula(v, Wide(weight)); }, Wide(x), dy),
             "dx");
  ExpectNear(dweight,
             Numeric([&](const Doubles& v) { return formula(Wide(x), v); }, Wide(weight), dy),
             "dweight");
  Floats in_place = dy;
  RmsNormBackward(rows, in_place.data(), x.data(), weight.data(), rstd.data(), in_place.data(),
                  true, dweight.data());
  for (size_t t = 0; t < 3; ++t)
    for (size_t i = 0; i < 42; ++i) EXPECT_EQ(in_place[t * 50 + i], dx[t * 50 + i]);
}

TEST(Rope, TurnsPairsHalfAHeadApart) {
  const Rows rows{4, 2, 6, 13};
  const Floats frequencies = {1.0f, 0.3f, 0.01f};
  const RopeTable table({.frequencies = frequencies, .scale = 1}, 100);
  const std::vector<int32_t> positions = {0, 1, 7, 99};
  const Floats x = Random(52, 5);
  const auto formula = [&](const Doubles& input) {
    Doubles y = input;
    for (size_t t = 0; t < 4; ++t)
      for (size_t g = 0; g < 2; ++g)
        for (size_t i = 0; i < 3; ++i) {
          const size_t at = t * 13 + g * 6 + i;
          const double angle = positions[t] * static_cast<double>(frequencies[i]);
          y[at] = input[at] * std::cos(angle) - input[at + 3] * std::sin(angle);
          y[at + 3] = input[at + 3] * std::cos(angle) + input[at] * std::sin(angle);
        }
    return y;
  };
  Floats y = x;
  RopeForward(rows, positions, table, y.data());
  ExpectNear(y, formula(Wide(x)), "y");
  RopeBackward(rows, positions, table, y.data());
  ExpectNear(y, Wide(x), "back");
}

// Both directions: the gradient of a scaled rotation is the scaled rotation back.
TEST(Rope, ScalesWhatItTurns) {
  const Rows rows{1, 1, 2, 2};
  const RopeTable table({.frequencies = {0.5f}, .scale = 1.25f}, 4);
  const std::vector<int32_t> positions = {3};
  Floats x = {1, 0};
  RopeForward(rows, positions, table, x.data());
  ExpectNear(x, {1.25 * std::cos(1.5), 1.25 * std::sin(1.5)}, "y");
  RopeBackward(rows, positions, table, x.data());
  ExpectNear(x, {1.5625, 0}, "back");
}

TEST(Swiglu, ForwardAndGradient) {
  const Floats gate_up = Random(3 * 2 * 37, 8, 3);
  const Floats dact = Random(3 * 37, 9);
  const auto formula = [](const Doubles& in) {
    Doubles act;
    for (size_t t = 0; t < 3; ++t)
      for (size_t i = 0; i < 37; ++i) {
        const double gate = in[t * 74 + i];
        act.push_back(gate / (1 + std::exp(-gate)) * in[t * 74 + 37 + i]);
      }
    return act;
  };
  Floats act(3 * 37), dgate_up(3 * 74);
  SwigluForward(3, 37, gate_up.data(), act.data());
  ExpectNear(act, formula(Wide(gate_up)), "act");
  SwigluBackward(3, 37, dact.data(), gate_up.data(), dgate_up.data());
  ExpectNear(dgate_up, Numeric(formula, Wide(gate_up), dact), "dgate_up");
}

// silu(x) = x * sigmoid(x): the exponential over its whole range, ends included.
TEST(Swiglu, ExponentialsAreExactEnoughEverywhere) {
  for (float gate = -100; gate <= 100; gate += 0.037f) {
    const Floats in = {gate, 1.0f};
    float act = 0;
    SwigluForward(1, 1, in.data(), &act);
    const double expected = gate / (1 + std::exp(-static_cast<double>(gate)));
    ASSERT_TRUE(std::abs(act - expected) <= 4e-7 * std::abs(expected) + 1e-36)
        << gate << ": " << act << ", expected " << expected;
  }
}

// Two sequences, one longer than a block of rows; four query heads on two key heads.
struct AttentionCase {
  static constexpr int64_t kHeads = 4, kKeyHeads = 2, kWidth = 6;
  static constexpr int64_t kStride = (kHeads + 2 * kKeyHeads) * kWidth;
  AttentionShape shape{kHeads, kKeyHeads, kWidth, kStride, kStride, kStride, kHeads* kWidth};
  std::vector<int32_t> starts;
  std::vector<int32_t> parents;
  AttentionScratch scratch;
  size_t tokens() const { return static_cast<size_t>(starts.back()); }

  void Forward(const Floats& qkv, Floats& out, Floats& lse) {
    AttentionForward(shape, {starts, parents}, qkv.data(), qkv.data() + 24, qkv.data() + 36,
                     out.data(), lse.data(), scratch);
  }
  void Backward(const Floats& qkv, const Floats& out, const Floats& lse, const Floats& dout,
                Floats& dqkv) {
    AttentionBackward(shape, {starts, parents}, qkv.data(), qkv.data() + 24, qkv.data() + 36,
                      out.data(), lse.data(), dout.data(), dqkv.data(), dqkv.data() + 24,
                      dqkv.data() + 36, scratch);
  }

  // One head of a sequence: its part of each row of `qkv`.
  Matrix Head(const Doubles& qkv, size_t s, int64_t h) const {
    return Take(qkv, starts[s] * kStride + h * kWidth, starts[s + 1] - starts[s], kWidth, kStride);
  }
  // The rows of all tokens that a sequence sees.
  Matrix Seen(const Doubles& qkv, size_t s, int64_t h) const {
    if (parents.empty() || parents[s] < 0) return Head(qkv, s, h);
    const Matrix parent = Head(qkv, static_cast<size_t>(parents[s]), h), own = Head(qkv, s, h);
    Matrix both(parent.rows() + own.rows(), kWidth);
    both << parent, own;
    return both;
  }
  Doubles Formula(const Doubles& qkv) const {
    Matrix out(tokens(), kHeads * kWidth);
    for (size_t s = 0; s + 1 < starts.size(); ++s)
      for (int64_t h = 0; h < kHeads; ++h)
        out.block(starts[s], h * kWidth, starts[s + 1] - starts[s], kWidth) =
            reference::Attention(Head(qkv, s, h), Seen(qkv, s, kHeads + h / 2),
                                 Seen(qkv, s, kHeads + kKeyHeads + h / 2), shape.window);
    return Flat(out);
  }
};

TEST(Attention, ForwardOverBlocksOfRows) {
  AttentionCase that;
  that.starts = {0, 5, 5 + 300, 5 + 300 + 1};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 11);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4);
  that.Forward(qkv, out, lse);
  ExpectNear(out, that.Formula(Wide(qkv)), "out");
}

TEST(Attention, GradientsOfAllThree) {
  AttentionCase that;
  that.starts = {0, 4, 11};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 12);
  const Floats dout = Random(that.tokens() * 24, 13);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4);
  that.Forward(qkv, out, lse);
  Floats gradient(qkv.size(), 99.0f);  // must be set, not added to
  that.Backward(qkv, out, lse, dout, gradient);
  ExpectNear(gradient, Numeric([&](const Doubles& v) { return that.Formula(v); }, Wide(qkv), dout),
             "dqkv");
}

// Two prompts, the first with two answers and the second with one; and a sequence alone.
TEST(Attention, AnswersToOnePromptSeeItAndNotEachOther) {
  AttentionCase that;
  that.starts = {0, 5, 8, 9, 13, 20, 22};
  that.parents = {-1, 0, -1, 0, -1, 2};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 16);
  const Floats dout = Random(that.tokens() * 24, 17);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4), gradient(qkv.size(), 99.0f);
  that.Forward(qkv, out, lse);
  ExpectNear(out, that.Formula(Wide(qkv)), "out");
  that.Backward(qkv, out, lse, dout, gradient);
  ExpectNear(gradient, Numeric([&](const Doubles& v) { return that.Formula(v); }, Wide(qkv), dout),
             "dqkv");
}

TEST(Attention, AnswersToALongPrompt) {
  AttentionCase that;
  that.starts = {0, 131, 131 + 140, 131 + 140 + 67};
  that.parents = {-1, 0, 0};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 18);
  const Floats dout = Random(that.tokens() * 24, 19);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4), gradient(qkv.size());
  that.Forward(qkv, out, lse);
  ExpectNear(out, that.Formula(Wide(qkv)), "out");
  that.Backward(qkv, out, lse, dout, gradient);
  // The same, each answer with its own copy of the prompt.
  AttentionCase apart;
  apart.starts = {0, 271, 271 + 131 + 67};
  Floats own_qkv, own_dout;
  for (const auto& [first, end] : {std::pair(0, 271), std::pair(0, 131), std::pair(271, 338)}) {
    own_qkv.insert(own_qkv.end(), qkv.begin() + first * 48, qkv.begin() + end * 48);
    own_dout.insert(own_dout.end(), dout.begin() + first * 24, dout.begin() + end * 24);
  }
  // The prompt's own outputs count once.
  std::fill(own_dout.begin() + 271 * 24, own_dout.begin() + (271 + 131) * 24, 0.0f);
  Floats own_out(own_dout.size()), own_lse(apart.tokens() * 4), own_gradient(own_qkv.size());
  apart.Forward(own_qkv, own_out, own_lse);
  apart.Backward(own_qkv, own_out, own_lse, own_dout, own_gradient);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const size_t token = i / 48;
    const double expected = token < 131   ? double{own_gradient[i]} + own_gradient[i + 271 * 48]
                            : token < 271 ? own_gradient[i]
                                          : own_gradient[i + 131 * 48];
    ASSERT_NEAR(gradient[i], expected, 1e-5) << i;
  }
}

// Windows within a sequence, across the border between a prompt and its answers, and of one token.
TEST(Attention, SeesAWindowOfThePast) {
  for (const int64_t window : {1, 3, 6, 100}) {
    SCOPED_TRACE(window);
    AttentionCase that;
    that.shape.window = window;
    that.starts = {0, 5, 8, 9, 13, 20, 22};
    that.parents = {-1, 0, -1, 0, -1, 2};
    const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 16);
    const Floats dout = Random(that.tokens() * 24, 17);
    Floats out(that.tokens() * 24), lse(that.tokens() * 4), gradient(qkv.size(), 99.0f);
    that.Forward(qkv, out, lse);
    ExpectNear(out, that.Formula(Wide(qkv)), "out");
    that.Backward(qkv, out, lse, dout, gradient);
    ExpectNear(gradient,
               Numeric([&](const Doubles& v) { return that.Formula(v); }, Wide(qkv), dout), "dqkv");
  }
}

TEST(Attention, AWindowOverBlocksOfRows) {
  AttentionCase that;
  that.shape.window = 70;
  that.starts = {0, 131, 131 + 140, 131 + 140 + 67};
  that.parents = {-1, 0, 0};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 18);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4);
  that.Forward(qkv, out, lse);
  ExpectNear(out, that.Formula(Wide(qkv)), "out");
}

TEST(Attention, Bf16RoundsItsOperandsOnly) {
  for (const int32_t tokens : {1, 7, 200}) {
    AttentionCase that;
    that.starts = {0, tokens, tokens + 3};
    that.parents = {-1, 0};
    const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 21);
    const Floats dout = Random(that.tokens() * 24, 22);
    Floats out(that.tokens() * 24), lse(that.tokens() * 4), gradient(qkv.size());
    that.Forward(qkv, out, lse);
    that.Backward(qkv, out, lse, dout, gradient);
    Floats near_out(out.size()), near_lse(lse.size()), near_gradient(qkv.size(), 99.0f);
    that.shape.compute = Dtype::kBF16;
    that.Forward(qkv, near_out, near_lse);
    that.Backward(qkv, near_out, near_lse, dout, near_gradient);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(near_out[i], out[i], 0.02) << i;
    for (size_t i = 0; i < lse.size(); ++i) ASSERT_NEAR(near_lse[i], lse[i], 0.02) << i;
    for (size_t i = 0; i < qkv.size(); ++i) ASSERT_NEAR(near_gradient[i], gradient[i], 0.08) << i;
  }
}

// The gradient over several blocks: changing one query of the last block and one key of the first.
TEST(Attention, GradientAcrossBlocks) {
  AttentionCase that;
  that.starts = {0, 290};
  const Floats qkv = Random(that.tokens() * AttentionCase::kStride, 14);
  const Floats dout = Random(that.tokens() * 24, 15);
  Floats out(that.tokens() * 24), lse(that.tokens() * 4), gradient(qkv.size());
  that.Forward(qkv, out, lse);
  that.Backward(qkv, out, lse, dout, gradient);
  const Doubles wide = Wide(qkv);
  for (const size_t at : {size_t{289 * 48 + 7}, size_t{3 * 48 + 25}, size_t{130 * 48 + 40}}) {
    const auto moved = [&](double step) {
      Doubles x = wide;
      x[at] += step;
      const Doubles y = that.Formula(x);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dout[i];
      return sum;
    };
    const double expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    EXPECT_NEAR(gradient[at], expected, 1e-4 * (1 + std::abs(expected))) << at;
  }
}

TEST(Embedding, TakesAndAddsItsOwnRowsOnly) {
  const std::vector<int32_t> ids = {4, 7, 5, 4, 0};
  const Floats weight = Random(3 * 5, 20);  // rows 4 to 6
  Floats out(25);
  EmbeddingForward(ids, 4, 3, 5, Dtype::kF32, weight.data(), out.data());
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out[i], weight[i]);
    EXPECT_EQ(out[5 + i], 0.0f);
    EXPECT_EQ(out[10 + i], weight[5 + i]);
  }
  const Floats dout = Random(25, 21);
  Floats dweight(15, 1.0f);
  EmbeddingBackward(ids, 4, 3, 5, dout.data(), dweight.data());
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(dweight[i], 1.0f + dout[i] + dout[15 + i]);
    EXPECT_EQ(dweight[5 + i], 1.0f + dout[10 + i]);
    EXPECT_EQ(dweight[10 + i], 1.0f);
  }
}

TEST(LogProb, ShardsTogetherAreTheWholeVocabulary) {
  constexpr int64_t kTokens = 3, kColumns = 35;
  constexpr float kTemperature = 0.7f;
  const std::vector<int32_t> labels = {0, 34, 69};
  for (const float scale : {1.0f, 40.0f}) {  // with 40 some shards underflow next to others
    const Floats logits = Random(kTokens * 2 * kColumns, 30, scale);
    const auto formula = [&](const Doubles& z, bool entropy) {
      const Matrix u = Take(z, 0, kTokens, 70, 70) / double{kTemperature};
      const Vector max = u.rowwise().maxCoeff();
      const Vector log_sum = (u.colwise() - max).array().exp().rowwise().sum().log() + max.array();
      const Matrix logs = u.colwise() - log_sum;
      Doubles out;
      for (int64_t t = 0; t < kTokens; ++t)
        out.push_back(entropy ? -(logs.row(t).array().exp() * logs.row(t).array()).sum()
                              : logs(t, labels[static_cast<size_t>(t)]));
      return out;
    };
    const Doubles wide = Wide(logits);
    std::vector<ShardStatistics> shards(2 * kTokens);
    Floats parts[2];
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t v = 0; v < kColumns; ++v)
          parts[r].push_back(logits[static_cast<size_t>(t * 70 + r * kColumns + v)]);
      ShardLogProbs(kTokens, kColumns, parts[r].data(), labels.data(), r * kColumns, kTemperature,
                    shards.data() + r * kTokens);
    }
    std::vector<TokenStatistics> found(kTokens);
    CombineShards(kTokens, kColumns, 2, shards.data(), labels.data(), found.data());
    Floats log_probs, entropies;
    for (const TokenStatistics& token : found) {
      log_probs.push_back(token.log_prob);
      entropies.push_back(token.entropy);
    }
    ExpectNear(log_probs, formula(wide, false), "log_prob");
    ExpectNear(entropies, formula(wide, true), "entropy");
    const Floats gradient = Random(kTokens, 31);
    Floats merged(logits.size());
    for (int64_t r = 0; r < 2; ++r) {
      LogProbBackward(kTokens, kColumns, parts[r].data(), labels.data(), r * kColumns, kTemperature,
                      found.data(), parts[r].data());
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t v = 0; v < kColumns; ++v)
          merged[static_cast<size_t>(t * 70 + r * kColumns + v)] =
              parts[r][static_cast<size_t>(t * kColumns + v)] * gradient[static_cast<size_t>(t)];
    }
    ExpectNear(merged, Numeric([&](const Doubles& z) { return formula(z, false); }, wide, gradient),
               "dz");
  }
}

std::vector<uint16_t> ToBf16(const Floats& values) {
  std::vector<uint16_t> narrow(values.size());
  ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(values.data()), Dtype::kBF16,
                  reinterpret_cast<std::byte*>(narrow.data()), static_cast<int64_t>(values.size()));
  return narrow;
}

Floats FromBf16(const std::vector<uint16_t>& values) {
  Floats wide(values.size());
  ConvertElements(Dtype::kBF16, reinterpret_cast<const std::byte*>(values.data()), Dtype::kF32,
                  reinterpret_cast<std::byte*>(wide.data()), static_cast<int64_t>(values.size()));
  return wide;
}

TEST(MatrixEngine, EveryTransposeDtypeAndStride) {
  constexpr int64_t m = 5, n = 7, k = 19, stride = 23;
  MatrixEngine engine;
  for (int variant = 0; variant < 16; ++variant) {
    const bool ta = variant & 1, tb = variant & 2, add = variant & 4, bf16 = variant & 8;
    Floats a = Random(static_cast<size_t>(stride * stride), 40);
    Floats b = Random(static_cast<size_t>(stride * stride), 41);
    const std::vector<uint16_t> narrow_a = ToBf16(a), narrow_b = ToBf16(b);
    if (bf16) a = FromBf16(narrow_a), b = FromBf16(narrow_b);
    const auto operand = [&](const Floats& v, bool t, int64_t rows, int64_t columns) -> Matrix {
      if (t) return Take(v, 0, columns, rows, stride).transpose();
      return Take(v, 0, rows, columns, stride);
    };
    Floats c = Random(m * 9, 42);
    Matrix expected = Take(c, 0, m, 9, 9);
    if (!add) expected.leftCols(n).setZero();
    expected.leftCols(n) += operand(a, ta, m, k) * operand(b, tb, k, n);
    const Dtype dtype = bf16 ? Dtype::kBF16 : Dtype::kF32;
    const void* a_data = bf16 ? static_cast<const void*>(narrow_a.data()) : a.data();
    const void* b_data = bf16 ? static_cast<const void*>(narrow_b.data()) : b.data();
    for (int again = 0; again < (add ? 1 : 2); ++again)
      ASSERT_TRUE(engine
                      .Multiply(m, n, k, {a_data, dtype, stride, ta}, {b_data, dtype, stride, tb},
                                c.data(), 9, add)
                      .ok());
    ExpectNear(c, Flat(expected), ("variant " + std::to_string(variant)).c_str());
  }
}

// Large enough that operands are repacked.
TEST(MatrixEngine, LargeProductsOfBf16) {
  struct Size {
    int64_t m, n, k;
    bool ta, tb, add;
  };
  MatrixEngine engine;
  for (const Size& s :
       {Size{600, 40, 75, false, false, false}, Size{2100, 33, 70, false, true, false},
        Size{521, 300, 67, true, false, true}, Size{71, 260, 9, true, false, false}}) {
    const int64_t a_stride = (s.ta ? s.m : s.k) + 3, b_stride = (s.tb ? s.k : s.n) + 1;
    const std::vector<uint16_t> narrow_a =
        ToBf16(Random(static_cast<size_t>((s.ta ? s.k : s.m) * a_stride), 50));
    const std::vector<uint16_t> narrow_b =
        ToBf16(Random(static_cast<size_t>((s.tb ? s.n : s.k) * b_stride), 51));
    const Floats a = FromBf16(narrow_a), b = FromBf16(narrow_b);
    Floats c = Random(static_cast<size_t>(s.m * s.n), 52);
    Doubles expected = Wide(c);
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = s.add ? expected[static_cast<size_t>(i * s.n + j)] : 0;
        for (int64_t l = 0; l < s.k; ++l)
          sum += double{a[static_cast<size_t>(s.ta ? l * a_stride + i : i * a_stride + l)]} *
                 b[static_cast<size_t>(s.tb ? j * b_stride + l : l * b_stride + j)];
        expected[static_cast<size_t>(i * s.n + j)] = sum;
      }
    for (int again = 0; again < (s.add ? 1 : 2); ++again)
      ASSERT_TRUE(engine
                      .Multiply(s.m, s.n, s.k, {narrow_a.data(), Dtype::kBF16, a_stride, s.ta},
                                {narrow_b.data(), Dtype::kBF16, b_stride, s.tb}, c.data(), s.n,
                                s.add)
                      .ok());
    ExpectNear(c, expected, ("m " + std::to_string(s.m)).c_str());
  }
}

}  // namespace
}  // namespace nxdkit::trainer
