// AdamW: the reference's bf16 recurrence bit by bit, the others compared with f64 formulas, and
// common invariants: gaps stay, copies agree, the number of threads has no effect.
#include "trainer/algo/optimizer.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "lib/json/json.h"
#include "lib/system/file.h"
#include "trainer/base/rng.h"

namespace nxdkit::trainer {
namespace {

double WholeNorm(const ParamTable& table, const std::vector<float>& gradient) {
  const FlatRange all[] = {{0, table.size}};
  return SumOfTerms(SquaredNormTerms(table, all, gradient));
}

using Floats = std::vector<float>;
using Words = std::vector<uint16_t>;

float Wide(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t Narrow(float value) {  // for values that bf16 can hold
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

ParamTable TableOf(const std::vector<int64_t>& sizes, int64_t gap = 0) {
  ParamTable table;
  int64_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Slot slot;
    slot.param = static_cast<uint32_t>(i);
    slot.shape = {sizes[i]};
    slot.offset = offset;
    offset += sizes[i] + gap;
    table.slots.push_back(slot);
  }
  table.size = offset;
  return table;
}

Floats Random(size_t size, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats values(size);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(AdamWBf16, TheReferenceBitByBit) {
  struct Step {
    uint16_t g, m, v, p, c;
    double sum;
  };
  const Step steps[] = {
      {0x3dcd, 0x3c24, 0x3728, 0x3eff, 0x3a7a, .499001},
      {0xbca4, 0x3be6, 0x372f, 0x3eff, 0x39e8, .498489},
      {0x3e9a, 0x3d15, 0x38d4, 0x3eff, 0xb997, .497759},
      {0x3e9a, 0x3d81, 0x3949, 0x3efe, 0x3a5a, .496925},
      {0x3d4d, 0x3d7c, 0x394c, 0x3efe, 0x389b, .496168},
      {0x0000, 0x3d63, 0x394c, 0x3efe, 0xba18, .495514},
  };
  const ParamTable table = TableOf({1});
  AdamBf16State state = MakeAdamBf16State({0, table.size});
  Words weights = {Narrow(.5f)};
  for (const Step& step : steps) {
    UpdateAdamWBf16(table, {}, {.lr = 1e-3}, Floats{Wide(step.g)}, state, weights);
    EXPECT_EQ(state.m[0], step.m) << "t " << state.step;
    EXPECT_EQ(state.v[0], step.v) << "t " << state.step;
    EXPECT_EQ(weights[0], step.p) << "t " << state.step;
    EXPECT_EQ(state.c[0], step.c) << "t " << state.step;
    EXPECT_NEAR(Wide(weights[0]) + Wide(state.c[0]), step.sum, 6e-7) << "t " << state.step;
  }
  EXPECT_EQ(state.step, 6);
}

// Fifty steps as in torch: testdata/algo/make.py.
TEST(AdamWBf16, FiftyStepsBitByBit) {
  const auto text = ReadSmallFile(NXDKIT_TESTDATA "/algo/adamw_bf16.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  const Json json = Json::parse(*text);
  Words weights = json["start"].get<Words>();
  const ParamTable table = TableOf({std::ssize(weights)});
  AdamBf16State state = MakeAdamBf16State({0, table.size});
  for (const Json& row : json["gradients"]) {
    Floats gradient;
    for (const uint16_t bits : row.get<Words>()) gradient.push_back(Wide(bits));
    UpdateAdamWBf16(table, {}, {.lr = 3e-3}, gradient, state, weights);
  }
  EXPECT_EQ(Words(state.m.begin(), state.m.end()), json["m"].get<Words>());
  EXPECT_EQ(Words(state.v.begin(), state.v.end()), json["v"].get<Words>());
  EXPECT_EQ(Words(state.c.begin(), state.c.end()), json["c"].get<Words>());
  EXPECT_EQ(weights, json["weights"].get<Words>());
}

// The update in f64.
struct Exact {
  double p, m = 0, v = 0;
  void Update(double g, double lr, double decay, int t) {
    p *= 1 - lr * decay;
    m = .9 * m + .1 * g;
    v = .999 * v + .001 * g * g;
    p -= lr / (1 - std::pow(.9, t)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(.999, t)) + 1e-8);
  }
};

TEST(AdamW, FollowsTheFormulaAndScalesTheGradient) {
  const ParamTable table = TableOf({50, 7}, 3);
  const size_t size = static_cast<size_t>(table.size);
  AdamState state = MakeAdamState({0, table.size});
  Floats weights = Random(size, 1);
  const Floats start = weights;
  std::vector<Exact> exact;
  for (const float weight : weights) exact.push_back({weight});
  Words narrow(size);
  for (int t = 1; t <= 30; ++t) {
    const Floats gradient = Random(size, 100 + static_cast<uint32_t>(t), 0.1f);
    UpdateAdamW(table, {}, {.lr = 1e-2, .scale = 0.5f}, gradient, state, weights, narrow);
    for (size_t i = 0; i < size; ++i) exact[i].Update(gradient[i] * .5, 1e-2, 1e-2, t);
  }
  for (const Slot& slot : table.slots)
    for (int64_t i = slot.offset; i < slot.offset + slot.size(); ++i) {
      const size_t at = static_cast<size_t>(i);
      EXPECT_NEAR(weights[at], exact[at].p, 2e-6) << i;
      EXPECT_NEAR(Wide(narrow[at]), weights[at], std::abs(weights[at]) / 256) << i;
    }
  for (const size_t gap : {50u, 51u, 52u, 60u, 61u, 62u}) {
    EXPECT_EQ(weights[gap], start[gap]);
    EXPECT_EQ(state.m[gap], 0);
    EXPECT_EQ(narrow[gap], 0);
  }
}

TEST(AdamWBf16Fixed, FollowsTheFormulaOnAverage) {
  // Many elements with the same weight and the same gradients: their mean is the f64 result,
  // because rounding is right on average; v decays once gradients get small; decay of 1e-7 a step
  // counts.
  const int64_t size = 4096;
  const ParamTable table = TableOf({size});
  AdamBf16State state = MakeAdamBf16State({0, table.size});
  Words weights(size, Narrow(0.75f));
  Exact exact = {0.75};
  Floats gradient(size);
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 1);
  const int steps = 600;
  for (int t = 1; t <= steps; ++t) {
    const float g = (t < 50 ? 0.1f : 0.001f) * normal(random);
    gradient.assign(size, g);
    UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-5}, 11, gradient, state, weights);
    exact.Update(g, 1e-5, 1e-2, t);
  }
  double p = 0, v = 0;
  for (size_t i = 0; i < size; ++i) {
    p += (double{Wide(weights[i])} + Wide(state.c[i])) / size;
    v += double{Wide(state.v[i])} / size;
  }
  EXPECT_NEAR(v, exact.v, exact.v * 2e-3);
  EXPECT_NEAR(p - 0.75, exact.p - 0.75, 2e-6 + std::abs(exact.p - 0.75) * 0.01);
}

TEST(AdamWBf16Fixed, DecayAloneMovesTheWeight) {
  const int64_t size = 4096;
  const ParamTable table = TableOf({size});
  const Floats zero(size);
  AdamBf16State fixed = MakeAdamBf16State({0, table.size}),
                faithful = MakeAdamBf16State({0, table.size});
  Words moved(size, Narrow(0.75f)), stuck = moved;
  for (int t = 0; t < 1000; ++t) {
    UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-5}, 1, zero, fixed, moved);
    UpdateAdamWBf16(table, {}, {.lr = 1e-5}, zero, faithful, stuck);
  }
  double p = 0;
  for (size_t i = 0; i < size; ++i) p += (double{Wide(moved[i])} + Wide(fixed.c[i])) / size;
  EXPECT_NEAR(p - 0.75, -0.75 * 1e-7 * 1000, 2e-6);
  EXPECT_EQ(stuck[0], Narrow(0.75f));
  EXPECT_EQ(Wide(faithful.c[0]), 0);
}

// The states of two ranks after a few steps of the same gradients for the same parameter.
AdamBf16State RunFixed(const ParamTable& table, uint64_t seed, Words& weights) {
  AdamBf16State state = MakeAdamBf16State({0, table.size});
  weights.assign(static_cast<size_t>(table.size), Narrow(0.75f));
  for (uint32_t t = 0; t < 5; ++t) {
    Floats gradient(static_cast<size_t>(table.size));
    for (const Slot& slot : table.slots) {
      const Floats part = Random(static_cast<size_t>(slot.size()), slot.param * 10 + t);
      std::copy(part.begin(), part.end(), gradient.begin() + slot.offset);
    }
    UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-4}, seed, gradient, state, weights);
  }
  return state;
}

TEST(AdamWBf16Fixed, CopiesOnOtherRanksGetTheSameBits) {
  ParamTable one = TableOf({130, 65});
  ParamTable other = TableOf({130, 65}, 40);  // another place in the array
  Words a, b;
  const AdamBf16State first = RunFixed(one, 3, a);
  const AdamBf16State second = RunFixed(other, 3, b);
  for (size_t i = 0; i < 65; ++i) {
    EXPECT_EQ(first.v[130 + i], second.v[170 + i]) << i;
    EXPECT_EQ(first.c[130 + i], second.c[170 + i]) << i;
    EXPECT_EQ(a[130 + i], b[170 + i]) << i;
  }
  Words c;
  EXPECT_NE(RunFixed(one, 4, c).c, first.c) << "another seed";
  one.slots[1].cut_begin = 65;
  EXPECT_NE(RunFixed(one, 3, c).c, first.c) << "another part of the parameter";
}

// The random bits are part of a run's result: every version of the library must draw the same.
TEST(AdamWBf16Fixed, DrawsByPlace) {
  constexpr uint32_t kPart = 64;  // adjacent words of one kind
  const int64_t size = 4 * kPart + 30;
  ParamTable table = TableOf({size});
  table.slots[0].param = 7;
  table.slots[0].cut_begin = 3;
  AdamBf16State state = MakeAdamBf16State({0, table.size});
  Words weights(size, Narrow(0.75f));
  UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-3}, 9, Floats(size, 1), state, weights);
  const uint32_t v = std::bit_cast<uint32_t>(0.001f);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t group = i / (4 * kPart);
    const uint32_t place = i % (4 * kPart);
    const PhiloxCounter words =
        Philox({group * kPart + place % kPart, 3, 7, 1}, MakeKey(9, RandomUse::kRounding));
    EXPECT_EQ(state.v[i], (v + (words[place / kPart] & 0xffff)) >> 16) << i;
  }
}

TEST(Optimizers, ThreadsDoNotCount) {
  const ParamTable table = TableOf({200000, 77, 70001});
  const size_t size = static_cast<size_t>(table.size);
  const Floats gradient = Random(size, 5);
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    AdamState state = MakeAdamState({0, table.size});
    AdamBf16State faithful = MakeAdamBf16State({0, table.size}), fixed = faithful;
    Floats master = Random(size, 6);
    Words p(size, Narrow(0.5f)), q = p;
    for (int t = 0; t < 3; ++t) {
      UpdateAdamW(table, {}, {.lr = 1e-3}, gradient, state, master);
      UpdateAdamWBf16(table, {}, {.lr = 1e-3}, gradient, faithful, p);
      UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-3}, 1, gradient, fixed, q);
    }
    return std::tuple(master, p, q, faithful.c, fixed.v, fixed.c, WholeNorm(table, gradient));
  };
  const auto one = run(1);
  EXPECT_EQ(run(3), one);
  omp_set_num_threads(1);
}

TEST(Norm, CopiesCountOnceOverTheRanks) {
  ParamTable table = TableOf({3, 2}, 1);
  table.slots[1].copies = 4;
  const Floats gradient = {1, 2, 3, 1e30f, 4, 8, 1e30f};
  EXPECT_EQ(WholeNorm(table, gradient), 14 + 80.0 / 4);
}

TEST(Norm, BigGradientsDoNotOverflow) {
  const ParamTable table = TableOf({20});
  EXPECT_NEAR(std::sqrt(WholeNorm(table, Floats(20, 1e30f))), std::sqrt(20) * 1e30, 1e24);
}

TEST(Clip, FactorAndSkip) {
  EXPECT_EQ(ClipGradient(0.25, 1).scale, 1);
  const GradientClip clip = ClipGradient(16, 1);
  EXPECT_EQ(clip.norm, 4);
  EXPECT_FALSE(clip.skip);
  EXPECT_FLOAT_EQ(clip.scale, static_cast<float>(1 / (4 + 1e-6)));
  const ParamTable table = TableOf({20});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const size_t place : {0u, 19u}) {
      Floats gradient(20, 1);
      gradient[place] = bad;
      EXPECT_TRUE(ClipGradient(WholeNorm(table, gradient), 1).skip);
    }
}

TEST(Optimizers, Names) {
  EXPECT_EQ(*ParseOptimizerType("adamw"), OptimizerType::kAdamW);
  EXPECT_EQ(*ParseOptimizerType("adamw_bf16"), OptimizerType::kAdamWBf16);
  EXPECT_EQ(*ParseOptimizerType("adamw_bf16_fixed"), OptimizerType::kAdamWBf16Fixed);
  EXPECT_EQ(ParseOptimizerType("adam").error().member(), "worker.actor.optim.strategy");
}

// A slot of several pieces, one of a single piece, and gaps between them.
TEST(CutForOptimizer, RangesHaveTheBitsOfTheWhole) {
  ParamTable table;
  table.size = 300'000;
  table.slots.resize(3);
  table.slots[0] = {.param = 0, .shape = {200'001}, .offset = 0};
  table.slots[1] = {.param = 1, .shape = {7}, .offset = 200'064, .copies = 2};
  table.slots[2] = {.param = 2, .shape = {99'000}, .offset = 200'128};
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  Floats gradient(300'000), start(300'000);
  for (float& value : gradient) value = normal(random);
  for (float& value : start) value = normal(random);
  const auto run = [&](int ranks) {
    Floats weights = start;
    std::vector<uint16_t> narrow(300'000), fixed(300'000, 0x3f80);
    std::vector<double> terms;
    int64_t end = 0;
    for (const FlatRange& range : CutForOptimizer(table, {0, table.size}, ranks)) {
      EXPECT_EQ(range.begin, end);
      end = range.end;
      const auto part = [&](auto& all) {
        return std::span(all).subspan(static_cast<size_t>(range.begin),
                                      static_cast<size_t>(range.size()));
      };
      AdamState state = MakeAdamState(range);
      AdamBf16State bf16 = MakeAdamBf16State(range);
      for (int step = 0; step < 3; ++step) {
        UpdateAdamW(table, {}, {.lr = 1e-2}, part(gradient), state, part(weights), part(narrow));
        UpdateAdamWBf16Fixed(table, {}, {.lr = 1e-2}, 5, part(gradient), bf16, part(fixed));
      }
      const std::vector<double> own = SquaredNormTerms(table, {&range, 1}, gradient);
      terms.resize(own.size());
      for (size_t i = 0; i < own.size(); ++i) terms[i] += own[i];
    }
    EXPECT_EQ(end, table.size);
    return std::tuple(weights, narrow, fixed, SumOfTerms(terms));
  };
  const auto whole = run(1);
  for (const int ranks : {2, 3, 4, 16}) EXPECT_TRUE(run(ranks) == whole) << ranks;
  const std::vector<FlatRange> two = CutForOptimizer(table, {0, table.size}, 2);
  EXPECT_NEAR(static_cast<double>(two[0].size()), 150'000, 33'000);
}

}  // namespace
}  // namespace nxdkit::trainer
