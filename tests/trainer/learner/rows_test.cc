// Rows as batches of the decoder: the places of tokens, positions and targets, and that a prompt
// shared by several rows gives the same as a copy for each.
#include "trainer/learner/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;

std::vector<std::pair<int32_t, int32_t>> Targets(const Batch& batch) {
  std::vector<std::pair<int32_t, int32_t>> targets;
  for (const Batch::Target& target : batch.targets) targets.push_back({target.token, target.label});
  return targets;
}

TEST(PackRows, ARowIsASequenceWithoutItsLastToken) {
  const std::vector<Row> rows = {{{1, 2}, {3, 4, 5}}, {{6}, {7}}};
  const Batch batch = PackRows(rows, std::vector<size_t>{0, 1});
  EXPECT_THAT(batch.ids, ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(batch.starts, ElementsAre(0, 4, 5));
  EXPECT_THAT(batch.parents, ElementsAre(-1, -1));
  EXPECT_THAT(Targets(batch),
              ElementsAre(std::pair(1, 3), std::pair(2, 4), std::pair(3, 5), std::pair(4, 7)));
}

TEST(PackRows, NeighboursShareTheirPrompt) {
  const std::vector<Row> rows = {
      {{9}, {8, 8}}, {{1, 2}, {3, 4, 5}}, {{1, 2}, {6}}, {{1, 2}, {7, 8}}};
  const Batch batch = PackRows(rows, std::vector<size_t>{0, 1, 2, 3});
  EXPECT_THAT(batch.ids, ElementsAre(9, 8, 1, 2, 3, 4, 7));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0, 1, 2, 3, 2));
  // An answer of one token has no sequence: only the prompt predicts it.
  EXPECT_THAT(batch.starts, ElementsAre(0, 2, 4, 6, 7));
  EXPECT_THAT(batch.parents, ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(Targets(batch),
              ElementsAre(std::pair(0, 8), std::pair(1, 8), std::pair(3, 3), std::pair(4, 4),
                          std::pair(5, 5), std::pair(3, 6), std::pair(3, 7), std::pair(6, 8)));
}

void ExpectClose(const Floats& found, const Floats& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= 2e-5f * largest)
        << what << "[" << i << "]: " << found[i] << ", expected " << expected[i];
}

TEST(PackRows, ASharedPromptChangesNeitherLogProbsNorGradients) {
  std::vector<Row> rows;
  for (int32_t r = 0; r < 5; ++r) {
    Row& row = rows.emplace_back();
    for (int32_t i = 0; i < 6; ++i) row.prompt.push_back((r / 4 * 17 + i * 5 + 1) % 64);
    for (int32_t i = 0; i < 1 + r * 3 % 5; ++i) row.response.push_back((r * 7 + i * 11 + 2) % 64);
  }
  const std::vector<size_t> all = {0, 1, 2, 3, 4};
  const Batch shared = PackRows(rows, all);
  std::vector<Batch> alone;
  std::vector<Floats> gradients;
  Floats whole;
  for (const size_t r : all) {
    alone.push_back(PackRows(rows, std::span(all).subspan(r, 1)));
    gradients.push_back(SampleGradient(alone.back().targets.size()));
    whole.insert(whole.end(), gradients.back().begin(), gradients.back().end());
  }
  ASSERT_EQ(shared.ids.size() + 3 * 6, [&] {
    size_t ids = 0;
    for (const Batch& batch : alone) ids += batch.ids.size();
    return ids;
  }());
  for (const testing_util::TinyModel& tiny : {testing_util::TinyLlama(), testing_util::TinyQwen3()})
    for (const int tp : {1, 2}) {
      SCOPED_TRACE(tp);
      const ModelLab lab(tiny);
      const Outcome found = lab.Run(tp, {}, {shared}, {whole});
      const Outcome expected = lab.Run(tp, {}, alone, gradients);
      ExpectClose(found.log_probs, expected.log_probs, "log_probs");
      ExpectClose(found.entropies, expected.entropies, "entropies");
      for (const auto& [name, gradient] : expected.gradients)
        ExpectClose(found.gradients.at(name), gradient, name);
    }
}

// `groups`: the lengths of the responses to each prompt.
std::vector<Row> Groups(const std::vector<std::vector<size_t>>& groups, size_t prompt) {
  std::vector<Row> rows;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const size_t length : groups[g])
      rows.push_back(
          {std::vector<int32_t>(prompt, static_cast<int32_t>(g)), std::vector<int32_t>(length, 7)});
  return rows;
}

std::vector<size_t> All(const std::vector<Row>& rows) {
  std::vector<size_t> all(rows.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

using Batches = std::vector<std::vector<size_t>>;

TEST(MicroBatches, ByRowsTheyAreSlices) {
  const std::vector<Row> rows = Groups({{5, 1, 9}, {2, 2}}, 3);
  EXPECT_EQ(MicroBatches(rows, All(rows), 0, 2), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(MicroBatches(rows, std::vector<size_t>{4, 0}, 0, 2), (Batches{{4, 0}}));
  EXPECT_TRUE(MicroBatches(rows, {}, 10, 2).empty());
  EXPECT_TRUE(MicroBatches(rows, {}, 10, 0).empty());
}

// In the order of the rows, 100 tokens would be 60, 60, 90 and 30: four passes.
TEST(MicroBatches, ByTokensTheyAreNearlyEqual) {
  const std::vector<Row> rows = Groups({{50}, {10, 40}, {30, 50}, {20}}, 10);
  EXPECT_EQ(MicroBatches(rows, All(rows), 120, 0), (Batches{{3, 4, 5}, {0, 1, 2}}));
}

TEST(MicroBatches, AnswersToOnePromptStayTogetherWhereTheyFit) {
  // Alone these are 4 x 30 tokens, with one copy of the prompt 60.
  const std::vector<Row> rows = Groups({{10, 10, 10, 10}, {10, 10, 10, 10}}, 20);
  EXPECT_EQ(MicroBatches(rows, All(rows), 60, 0), (Batches{{4, 5, 6, 7}, {0, 1, 2, 3}}));
  // 59 is too few for four of them: two and two, not three and one.
  for (const auto& batch : MicroBatches(rows, All(rows), 59, 0)) EXPECT_EQ(batch.size(), 2u);
}

TEST(MicroBatches, EveryRowOnceWithinTheBound) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<size_t>> groups(1 + random() % 12);
    for (std::vector<size_t>& group : groups) {
      group.resize(1 + random() % 8);
      for (size_t& length : group) length = 1 + random() % 40;
    }
    const size_t prompt = 1 + random() % 20;
    const std::vector<Row> rows = Groups(groups, prompt);
    const int64_t most = static_cast<int64_t>(prompt) + 40 + static_cast<int64_t>(random() % 200);
    std::vector<size_t> seen;
    for (const std::vector<size_t>& batch : MicroBatches(rows, All(rows), most, 0)) {
      ASSERT_FALSE(batch.empty());
      const Batch packed = PackRows(rows, batch);
      EXPECT_LE(static_cast<int64_t>(packed.ids.size()), most);
      EXPECT_LE(static_cast<int64_t>(packed.targets.size()), most);
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
    std::ranges::sort(seen);
    EXPECT_EQ(seen, All(rows));
  }
}

}  // namespace
}  // namespace nxdkit::trainer
