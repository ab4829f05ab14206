// Known answers of the paper's reference implementation (Random123 kat_vectors), and the
// distribution of the draws.
#include "trainer/base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace nxdkit::trainer {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfThePointCounts) {
  std::set<double> draws;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40})
    for (uint32_t step = 0; step < 3; ++step)
      for (uint32_t prompt = 0; prompt < 3; ++prompt)
        for (uint32_t sample = 0; sample < 3; ++sample)
          for (uint32_t position = 0; position < 3; ++position)
            draws.insert(
                DrawUniform(MakeKey(seed, RandomUse::kSampling), {step, prompt, sample, position}));
  EXPECT_EQ(draws.size(), 243u);
  EXPECT_NE(MakeKey(1, RandomUse::kSampling), MakeKey(1, RandomUse::kRounding));
}

TEST(Philox, UniformBelowOneWithTheRightMoments) {
  EXPECT_EQ(UniformDouble(0xffffffff, 0xffffffff), 1.0 - 0x1p-53);
  EXPECT_EQ(UniformDouble(0, 0), 0.0);
  const PhiloxKey key = MakeKey(7, RandomUse::kSampling);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double u = DrawUniform(key, {.position = i});
    sum += u;
    squares += u * u;
  }
  // Three standard deviations of the mean of that many.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.003);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.003);
}

}  // namespace
}  // namespace nxdkit::trainer
