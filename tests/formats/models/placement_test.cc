// The rank of every head: goldens taken from the reference programs, the tables of the rollout
// side, and the invariants of every placement.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "formats/models/gqa.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::models {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;
using Heads = std::vector<int64_t>;

Placement Training(int64_t heads, int64_t kv, int64_t m, int64_t tp, Hardware hardware) {
  Result<Placement> placement = TrainingPlacement(heads, kv, m, tp, hardware);
  EXPECT_TRUE(placement.ok()) << placement.error().ToString();
  return placement.ok() ? *std::move(placement) : Placement();
}

std::vector<Heads> Queries(const Placement& placement) {
  std::vector<Heads> all;
  for (const RankHeads& rank : placement) all.push_back(rank.query);
  return all;
}

std::vector<Heads> Keys(const Placement& placement) {
  std::vector<Heads> all;
  for (const RankHeads& rank : placement) all.push_back(rank.kv);
  return all;
}

// The ranks that hold each key head.
std::vector<Heads> ReplicaGroups(const Placement& placement, int64_t kv_heads) {
  std::vector<Heads> groups(static_cast<size_t>(kv_heads));
  for (size_t rank = 0; rank < placement.size(); ++rank)
    for (int64_t head : placement[rank].kv) groups[head].push_back(static_cast<int64_t>(rank));
  return groups;
}

TEST(Training, Trn1GoldenOf16QueriesOver8Ranks) {
  const Placement placement = Training(16, 4, 2, 8, Hardware::kTrn1);
  EXPECT_THAT(Queries(placement),
              ElementsAre(Heads{0, 1}, Heads{4, 5}, Heads{8, 9}, Heads{12, 13}, Heads{2, 3},
                          Heads{6, 7}, Heads{10, 11}, Heads{14, 15}));
  EXPECT_THAT(Keys(placement), ElementsAre(Heads{0}, Heads{1}, Heads{2}, Heads{3}, Heads{0},
                                           Heads{1}, Heads{2}, Heads{3}));
}

struct Formula {
  int64_t heads, kv, m, tp;
};

// With kv * m == tp: query heads of rank t are (j * m + i) * n + {0 ... n - 1} for j = t mod kv,
// i = t div kv; the key head is j.
class Trn1Formula : public ::testing::TestWithParam<Formula> {};
TEST_P(Trn1Formula, HoldsOnEveryRank) {
  const auto [heads, kv, m, tp] = GetParam();
  const Placement placement = Training(heads, kv, m, tp, Hardware::kTrn1);
  const int64_t n = heads / tp;
  for (int64_t t = 0; t < tp; ++t) {
    Heads expected;
    for (int64_t i = 0; i < n; ++i) expected.push_back(((t % kv) * m + t / kv) * n + i);
    EXPECT_EQ(placement[t].query, expected) << "rank " << t;
    EXPECT_THAT(placement[t].kv, ElementsAre(t % kv)) << "rank " << t;
  }
}
INSTANTIATE_TEST_SUITE_P(Goldens, Trn1Formula,
                         ::testing::Values(Formula{64, 16, 4, 64},  // one query head on a rank
                                           Formula{32, 8, 4, 32},   // Llama 3 8B
                                           Formula{64, 8, 4, 32},   // Llama 3 70B
                                           Formula{16, 8, 1, 8},    // no copies
                                           Formula{16, 4, 2, 8}));

TEST(Training, WithoutCopiesBothHardwaresAreInNaturalOrder) {
  for (const int64_t tp : {1, 2, 4, 8}) {
    const Placement trn1 = Training(16, 8, 1, tp, Hardware::kTrn1);
    const Placement trn2 = Training(16, 8, 1, tp, Hardware::kTrn2);
    int64_t next = 0;
    for (int64_t t = 0; t < tp; ++t) {
      EXPECT_EQ(trn1[t].query, trn2[t].query) << "tp " << tp << " rank " << t;
      EXPECT_EQ(trn1[t].kv, trn2[t].kv) << "tp " << tp << " rank " << t;
      for (int64_t head : trn1[t].query) EXPECT_EQ(head, next++) << "tp " << tp << " rank " << t;
    }
    EXPECT_EQ(next, 16);
  }
}

// The replica groups of NxD's layer: trn1 {j, j + tp/m, ...}, trn2 {k * m ... k * m + m - 1}.
TEST(Training, ReplicaGroupsAreThoseOfTheLayer) {
  EXPECT_THAT(ReplicaGroups(Training(32, 8, 4, 32, Hardware::kTrn1), 8),
              ElementsAre(Heads{0, 8, 16, 24}, Heads{1, 9, 17, 25}, Heads{2, 10, 18, 26},
                          Heads{3, 11, 19, 27}, Heads{4, 12, 20, 28}, Heads{5, 13, 21, 29},
                          Heads{6, 14, 22, 30}, Heads{7, 15, 23, 31}));
  EXPECT_THAT(ReplicaGroups(Training(32, 8, 4, 32, Hardware::kTrn2), 8),
              ElementsAre(Heads{0, 1, 2, 3}, Heads{4, 5, 6, 7}, Heads{8, 9, 10, 11},
                          Heads{12, 13, 14, 15}, Heads{16, 17, 18, 19}, Heads{20, 21, 22, 23},
                          Heads{24, 25, 26, 27}, Heads{28, 29, 30, 31}));
  EXPECT_THAT(ReplicaGroups(Training(32, 4, 8, 32, Hardware::kTrn1), 4)[0],
              ElementsAre(0, 4, 8, 12, 16, 20, 24, 28));
  EXPECT_THAT(ReplicaGroups(Training(32, 8, 2, 16, Hardware::kTrn2), 8)[0], ElementsAre(0, 1));
  EXPECT_THAT(ReplicaGroups(Training(32, 8, 2, 16, Hardware::kTrn2), 8)[1], ElementsAre(2, 3));
}

// Beyond the reference's formula: several key slots on a rank.
TEST(Training, SeveralCopiesOnARankFollowTheSlots) {
  const Placement trn1 = Training(8, 2, 2, 2, Hardware::kTrn1);  // slots K0 K1 | K0 K1
  EXPECT_THAT(Keys(trn1), ElementsAre(Heads{0, 1}, Heads{0, 1}));
  EXPECT_THAT(Queries(trn1), ElementsAre(Heads{0, 1, 4, 5}, Heads{2, 3, 6, 7}));
  const Placement trn2 = Training(8, 2, 2, 2, Hardware::kTrn2);  // slots K0 K0 | K1 K1
  EXPECT_THAT(Keys(trn2), ElementsAre(Heads{0, 0}, Heads{1, 1}));
  EXPECT_THAT(Queries(trn2), ElementsAre(Heads{0, 1, 2, 3}, Heads{4, 5, 6, 7}));
}

TEST(Training, RefusesWhatCannotBeSplit) {
  const auto query = ExpectError(TrainingPlacement(12, 4, 2, 8, Hardware::kTrn1),
                                 Errc::kUnsupported, "12 query heads cannot be split over tp 8");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->hint(), "tp can be 1, 2, 3, 4, 6, 12; sets with padded heads are not supported");
  const auto key = ExpectError(TrainingPlacement(16, 4, 1, 8, Hardware::kTrn2), Errc::kUnsupported,
                               "4 key heads times kv multiplier 1 cannot be split over tp 8");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->hint(), "use --kv-multiplier 2");
  ExpectError(TrainingPlacement(16, 4, 8, 8, Hardware::kTrn1), Errc::kUnsupported,
              "16 query heads cannot be split over 4 key heads times kv multiplier 8");
  const auto plain = ExpectError(PlainPlacement(16, 4, 8), Errc::kUnsupported,
                                 "4 key heads cannot be split over tp 8 without replication");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->hint(), "use --qkv linear with --kv-multiplier");
  ExpectError(PlainPlacement(6, 6, 4), Errc::kUnsupported,
              "6 query heads cannot be split over tp 4");
}

// Every accepted placement pairs each query head with its own key head.
TEST(Training, EveryPlacementPairsHeads) {
  int64_t placed = 0;
  for (int64_t kv = 1; kv <= 16; ++kv)
    for (int64_t group = 1; group <= 8; ++group)
      for (int64_t m = 1; m <= 8; ++m)
        for (int64_t tp = 1; tp <= 32; ++tp)
          for (const Hardware hardware : {Hardware::kTrn1, Hardware::kTrn2}) {
            const auto placement = TrainingPlacement(kv * group, kv, m, tp, hardware);
            if (!placement.ok()) continue;
            ++placed;
            const Status status = CheckPlacement(*placement, kv * group, kv);
            ASSERT_TRUE(status.ok()) << fmt::format("kv {} group {} m {} tp {}: ", kv, group, m, tp)
                                     << status.error().ToString();
          }
  EXPECT_GT(placed, 2000);
}

// The reference converter's output for trn2 with copies: trn2's queries over trn1's keys.
TEST(CheckPlacement, NamesTheFirstHeadThatMeetsAnothersKey) {
  Placement mixed = Training(16, 4, 2, 8, Hardware::kTrn2);
  const Placement tiled = Training(16, 4, 2, 8, Hardware::kTrn1);
  for (size_t rank = 0; rank < mixed.size(); ++rank) mixed[rank].kv = tiled[rank].kv;
  const auto error = ExpectError(CheckPlacement(mixed, 16, 4), Errc::kInternal,
                                 "query head 2 belongs to key head 0 but sits with key head 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 1);
}

struct RolloutCase {
  int64_t heads, kv, tp;
  GqaStrategy strategy;
  int64_t padded_query, padded_kv, repeat;
  int64_t group_padding;  // zero heads after each group of queries
  int64_t end_padding;    // zero heads at the end
};
constexpr GqaStrategy kRep = GqaStrategy::kReplicateToTpDegree;
constexpr GqaStrategy kMha = GqaStrategy::kConvertToMha;
constexpr RolloutCase kRolloutCases[] = {
    {32, 8, 1, kMha, 32, 8, 1, 0, 0},   {32, 8, 2, kMha, 32, 8, 1, 0, 0},
    {32, 8, 4, kMha, 32, 8, 1, 0, 0},   {32, 8, 8, kRep, 32, 8, 1, 0, 0},
    {32, 8, 16, kRep, 32, 16, 2, 0, 0}, {32, 8, 32, kRep, 32, 32, 4, 0, 0},
    {32, 8, 64, kRep, 64, 64, 8, 4, 0}, {64, 8, 32, kRep, 64, 32, 4, 0, 0},
    {56, 8, 32, kRep, 64, 32, 4, 1, 0}, {48, 8, 32, kRep, 64, 32, 4, 2, 0},
    {40, 8, 16, kRep, 48, 16, 2, 1, 0}, {40, 8, 32, kRep, 64, 32, 4, 3, 0},
    {24, 8, 16, kRep, 32, 16, 2, 1, 0}, {28, 4, 1, kMha, 28, 4, 1, 0, 0},
    {28, 4, 2, kMha, 28, 4, 1, 0, 0},   {28, 4, 4, kRep, 28, 4, 1, 0, 0},
    {28, 4, 8, kRep, 32, 8, 2, 1, 0},   {28, 4, 16, kRep, 32, 16, 4, 1, 0},
    {14, 2, 2, kRep, 14, 2, 1, 0, 0},   {14, 2, 4, kRep, 16, 4, 2, 1, 0},
    {14, 2, 8, kRep, 16, 8, 4, 1, 0},   {12, 2, 8, kRep, 16, 8, 4, 2, 0},
    {16, 8, 16, kRep, 16, 16, 2, 0, 0}, {32, 8, 24, kRep, 48, 24, 3, 2, 0},
    {6, 6, 12, kRep, 12, 12, 2, 1, 0},  {40, 40, 32, kMha, 64, 64, 1, 0, 24},
    {32, 8, 12, kMha, 36, 36, 4, 0, 4}, {28, 4, 6, kMha, 30, 30, 7, 0, 2},
};

class RolloutTable : public ::testing::TestWithParam<RolloutCase> {};
TEST_P(RolloutTable, CountsAndOrderAreAsListed) {
  const RolloutCase& row = GetParam();
  SCOPED_TRACE(fmt::format("{}/{} tp {}", row.heads, row.kv, row.tp));
  const RolloutHeads heads = RolloutPlacement(row.heads, row.kv, row.tp);
  EXPECT_EQ(GqaStrategyName(heads.strategy), GqaStrategyName(row.strategy));
  EXPECT_EQ(heads.padded_query, row.padded_query);
  EXPECT_EQ(heads.padded_kv, row.padded_kv);

  Heads query;
  for (int64_t head = 0; head < row.heads; ++head) {
    query.push_back(head);
    if ((head + 1) % (row.heads / row.kv) == 0)
      query.insert(query.end(), static_cast<size_t>(row.group_padding), kZeroHead);
  }
  query.insert(query.end(), static_cast<size_t>(row.end_padding), kZeroHead);
  Heads key;
  for (int64_t head = 0; head < row.kv; ++head)
    key.insert(key.end(), static_cast<size_t>(row.repeat), head);
  key.resize(static_cast<size_t>(row.padded_kv), kZeroHead);

  Heads stored_query;
  Heads stored_key;
  for (const RankHeads& rank : heads.placement) {
    stored_query.insert(stored_query.end(), rank.query.begin(), rank.query.end());
    stored_key.insert(stored_key.end(), rank.kv.begin(), rank.kv.end());
    EXPECT_EQ(rank.query.size() * static_cast<size_t>(row.tp),
              static_cast<size_t>(row.padded_query));
  }
  EXPECT_EQ(stored_query, query);
  EXPECT_EQ(stored_key, key);
}
INSTANTIATE_TEST_SUITE_P(Table, RolloutTable, ::testing::ValuesIn(kRolloutCases));

// "0 1 . 2" with a point for a zero head.
Heads Order(const std::string& text) {
  std::istringstream in(text);
  Heads heads;
  for (std::string word; in >> word;) heads.push_back(word == "." ? kZeroHead : std::stoll(word));
  return heads;
}

TEST(Rollout, SpelledOutOrders) {
  struct Row {
    int64_t heads, kv, tp;
    const char* query;
    const char* key;
  };
  const Row rows[] = {
      {14, 2, 8, "0 1 2 3 4 5 6 . 7 8 9 10 11 12 13 .", "0 0 0 0 1 1 1 1"},
      {12, 2, 8, "0 1 2 3 4 5 . . 6 7 8 9 10 11 . .", "0 0 0 0 1 1 1 1"},
      {6, 6, 12, "0 . 1 . 2 . 3 . 4 . 5 .", "0 0 1 1 2 2 3 3 4 4 5 5"},
      {28, 4, 6, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 . .",
       "0 0 0 0 0 0 0 1 1 1 1 1 1 1 2 2 2 2 2 2 2 3 3 3 3 3 3 3 . ."},
  };
  for (const Row& row : rows) {
    Heads query;
    Heads key;
    for (const RankHeads& rank : RolloutPlacement(row.heads, row.kv, row.tp).placement) {
      query.insert(query.end(), rank.query.begin(), rank.query.end());
      key.insert(key.end(), rank.kv.begin(), rank.kv.end());
    }
    EXPECT_EQ(query, Order(row.query)) << row.heads << "/" << row.kv << " tp " << row.tp;
    EXPECT_EQ(key, Order(row.key)) << row.heads << "/" << row.kv << " tp " << row.tp;
  }
}

// The comments of both enums: 56/8 at tp 32 gives 64/32 with one zero head after each seven.
TEST(Rollout, EveryCombinationIsWholeAndAligned) {
  int64_t cases = 0;
  for (int64_t kv = 1; kv <= 32; ++kv)
    for (int64_t group = 1; group <= 16; ++group)
      for (const int64_t tp : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
        SCOPED_TRACE(fmt::format("kv {} group {} tp {}", kv, group, tp));
        const RolloutHeads heads = RolloutPlacement(kv * group, kv, tp);
        ASSERT_EQ(heads.padded_query % tp, 0);
        ASSERT_EQ(heads.padded_kv % tp, 0);
        const Status aligned = CheckPlacement(heads.placement, kv * group, kv);
        ASSERT_TRUE(aligned.ok()) << aligned.error().ToString();
        std::vector<int> met(static_cast<size_t>(kv * group), 0);
        for (const RankHeads& rank : heads.placement)
          for (int64_t head : rank.query)
            if (head != kZeroHead) ++met[head];
        ASSERT_THAT(met, ::testing::Each(1)) << "every query head exactly once";
        ++cases;
      }
  EXPECT_EQ(cases, 6144);
}

TEST(CheckPlacement, FindsAShiftedKeySlice) {
  Placement placement = RolloutPlacement(28, 4, 8).placement;
  std::swap(placement[1].kv, placement[2].kv);
  const auto error = ExpectError(CheckPlacement(placement, 28, 4), Errc::kInternal,
                                 "query head 4 belongs to key head 0 but sits with key head 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 1);
}

TEST(CheckPlacement, APaddingSlotMayMeetAnything) {
  Placement placement = {{{0, kZeroHead}, {0, kZeroHead}}};
  EXPECT_TRUE(CheckPlacement(placement, 1, 1).ok());
  placement[0].query[1] = 0;
  ExpectError(CheckPlacement(placement, 1, 1), Errc::kInternal,
              "query head 0 belongs to key head 0 but sits with key head -1");
}

}  // namespace
}  // namespace nxdkit::models
