#include "trainer/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/json/json.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;

DataPosition Start(uint64_t rows, uint64_t seed = 1) {
  return {.seed = seed,
          .shuffle = true,
          .epoch = 0,
          .next_row = 0,
          .rows = rows,
          .fingerprint = "sha256:1"};
}

TEST(EpochOrder, IsAPermutationOfItsOwn) {
  std::vector<uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<uint32_t> first = EpochOrder(1000, 1, 0);
  std::vector<uint32_t> sorted = first;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, all);
  EXPECT_EQ(EpochOrder(1000, 1, 0), first);
  EXPECT_NE(EpochOrder(1000, 1, 1), first);
  EXPECT_NE(EpochOrder(1000, 2, 0), first);
  EXPECT_NE(EpochOrder(1000, 1, uint64_t{1} << 32), first);
  EXPECT_THAT(EpochOrder(1, 5, 0), ElementsAre(0));
  EXPECT_THAT(EpochOrder(0, 5, 0), ElementsAre());
}

TEST(EpochOrder, IsFixedForAllTime) {  // a checkpoint of today must resume tomorrow
  EXPECT_THAT(EpochOrder(8, 1, 0), ElementsAre(0, 1, 3, 2, 6, 4, 5, 7));
}

TEST(EpochOrder, IsFair) {
  std::map<std::vector<uint32_t>, int> counts;
  constexpr int kEpochs = 24'000;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[EpochOrder(4, 7, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_squared, 49.7) << "23 degrees of freedom: over this by chance once in 1000";
}

TEST(BatchSampler, GivesEachRowOnceInAnEpochAndDropsTheRest) {
  BatchSampler sampler = *BatchSampler::Make(Start(10), 3);
  const std::vector<uint32_t> order = EpochOrder(10, 1, 0);
  std::vector<uint32_t> seen;
  for (int i = 0; i < 3; ++i)
    for (const uint32_t row : sampler.Next()) seen.push_back(row);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), order.begin()));
  EXPECT_EQ(sampler.position().epoch, 0u);
  const std::vector<uint32_t> next = EpochOrder(10, 1, 1);
  EXPECT_THAT(sampler.Next(), ElementsAre(next[0], next[1], next[2]));
  EXPECT_EQ(sampler.position().epoch, 1u);
  EXPECT_EQ(sampler.position().next_row, 3u);
}

TEST(BatchSampler, WithoutShufflingKeepsTheOrder) {
  DataPosition start = Start(5);
  start.shuffle = false;
  BatchSampler sampler = *BatchSampler::Make(start, 2);
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1));
  EXPECT_THAT(sampler.Next(), ElementsAre(2, 3));
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1));
}

TEST(BatchSampler, ResumesAnywhereExactly) {
  for (int stop = 0; stop < 12; ++stop) {
    BatchSampler whole = *BatchSampler::Make(Start(11, 9), 4);
    for (int i = 0; i < stop; ++i) whole.Next();
    const Result<DataPosition> saved = PositionFromJson(PositionToJson(whole.position()));
    ASSERT_TRUE(saved.ok()) << saved.error().ToString();
    EXPECT_EQ(*saved, whole.position());
    Result<BatchSampler> resumed = BatchSampler::Resume(*saved, Start(11, 9), 4);
    ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
    for (int i = 0; i < 7; ++i) EXPECT_EQ(resumed->Next(), whole.Next()) << stop << " " << i;
  }
}

TEST(BatchSampler, RefusesAnotherDataSet) {
  const DataPosition saved = Start(11);
  DataPosition today = Start(11);
  today.fingerprint = "sha256:2";
  ExpectError(BatchSampler::Resume(saved, today, 4), Errc::kFindings,
              "the data set was sha256:1 (11 rows) and is sha256:2 (11 rows)");
  today = Start(11, 2);
  ExpectError(BatchSampler::Resume(saved, today, 4), Errc::kFindings, "the seed was 1 and is 2");
  today = Start(11);
  today.shuffle = false;
  ExpectError(BatchSampler::Resume(saved, today, 4), Errc::kFindings,
              "the shuffling was on and is off");
}

TEST(BatchSampler, NeedsOneWholeBatch) {
  ExpectError(BatchSampler::Make(Start(3), 4), Errc::kUsage,
              "batches of 4 rows from a data set of 3");
  ExpectError(BatchSampler::Make(Start(3), 0), Errc::kUsage, "batches of 0 rows");
}

TEST(DataPosition, IsNotTrusted) {
  const Json whole = Json::parse(PositionToJson(Start(11, ~uint64_t{0})));
  EXPECT_EQ(PositionFromJson(whole.dump())->seed, ~uint64_t{0});
  const std::pair<const char*, Json> faults[] = {
      {"seed", 1},         {"seed", "-1"},    {"seed", "18446744073709551616"},
      {"seed", ""},        {"shuffle", 1},    {"epoch", -1},
      {"epoch", nullptr},  {"next_row", 12},  {"rows", -1},
      {"rows", 1LL << 40}, {"fingerprint", 3}};
  for (const auto& [key, value] : faults) {
    Json broken = whole;
    broken[key] = value;
    const Result<DataPosition> position = PositionFromJson(broken.dump());
    ASSERT_FALSE(position.ok()) << key << " " << value;
    EXPECT_EQ(position.error().code(), Errc::kCorrupt);
    EXPECT_EQ(position.error().member(), key);
    broken.erase(key);
    EXPECT_FALSE(PositionFromJson(broken.dump()).ok()) << key;
  }
  ExpectError(PositionFromJson(""), Errc::kCorrupt, "JSON");
}

}  // namespace
}  // namespace nxdkit::trainer
