// Rows as batches of the decoder: where tokens, positions and targets lie, and that a prompt which
// several rows share gives what each would have with a copy of its own.
#include "trainer/actor/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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
  // The answer of one token has no sequence: only the prompt is asked about it.
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

}  // namespace
}  // namespace nxdkit::trainer
