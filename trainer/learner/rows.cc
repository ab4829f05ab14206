#include "trainer/learner/rows.h"

#include <algorithm>
#include <utility>

#include "trainer/algo/balance.h"

namespace nxdkit::trainer {

namespace {

class Packer {
 public:
  // Adds the answers to one prompt: a single one forms one sequence with it, several continue it.
  void Add(std::span<const Row> rows, std::span<const size_t> answers) {
    const std::span<const int32_t> prompt = rows[answers.front()].prompt;
    Append(prompt, 0);
    const int32_t last = static_cast<int32_t>(batch_.ids.size()) - 1;
    const int32_t sequence = static_cast<int32_t>(batch_.parents.size());
    if (answers.size() > 1) EndSequence(-1);
    for (const size_t r : answers) {
      const std::vector<int32_t>& response = rows[r].response;
      const int32_t first = static_cast<int32_t>(batch_.ids.size());
      Append(std::span(response).first(response.size() - 1), prompt.size());
      for (int32_t k = 0; k < static_cast<int32_t>(response.size()); ++k)
        batch_.targets.push_back({k == 0 ? last : first + k - 1, response[static_cast<size_t>(k)]});
      EndSequence(answers.size() > 1 ? sequence : -1);
    }
  }
  Batch Take() && { return std::move(batch_); }

 private:
  void Append(std::span<const int32_t> ids, size_t position) {
    batch_.ids.insert(batch_.ids.end(), ids.begin(), ids.end());
    for (size_t i = 0; i < ids.size(); ++i)
      batch_.positions.push_back(static_cast<int32_t>(position + i));
  }
  // A response of one token adds none: its sequence would be empty.
  void EndSequence(int32_t parent) {
    const int32_t end = static_cast<int32_t>(batch_.ids.size());
    if (end == batch_.starts.back()) return;
    batch_.starts.push_back(end);
    batch_.parents.push_back(parent);
  }

  Batch batch_{.ids = {}, .positions = {}, .starts = {0}, .parents = {}, .targets = {}};
};

// The number of `chosen` rows that begin with the first one's prompt.
size_t SamePrompts(std::span<const Row> rows, std::span<const size_t> chosen) {
  size_t end = 1;
  while (end < chosen.size() && rows[chosen[end]].prompt == rows[chosen[0]].prompt) ++end;
  return end;
}

// The fewest parts that are all at most `most` long, or one item each.
std::vector<Part> PartsWithin(std::span<const int64_t> lengths, int64_t most) {
  const int64_t items = std::ssize(lengths);
  if (items == 0) return {};
  for (int64_t count = MicroBatchCount(lengths, most);;) {
    Result<std::vector<Part>> parts = PackMicroBatches(lengths, count);
    NXDKIT_CHECK(parts.ok());  // the count is between 1 and the number of items
    int64_t largest = 0;
    for (const Part& part : *parts) largest = std::max(largest, LengthOf(lengths, part));
    if (largest <= most || count == items) return *std::move(parts);
    // Parts are nearly equal: scale their number by the excess of the largest.
    count = std::min(items, std::max(count + 1, count * largest / most));
  }
}

// Answers to one prompt that are computed together, once with the prompt.
struct Answers {
  std::vector<size_t> rows;
  int64_t tokens = 0;
};

// All answers to a prompt, or nearly equal shares of them that fit.
std::vector<Answers> ShareOut(std::span<const Row> rows, std::span<const size_t> chosen,
                              int64_t max_tokens) {
  std::vector<Answers> items;
  while (!chosen.empty()) {
    const auto same = chosen.first(SamePrompts(rows, chosen));
    chosen = chosen.subspan(same.size());
    const int64_t prompt = static_cast<int64_t>(rows[same[0]].prompt.size());
    std::vector<int64_t> lengths;
    for (const size_t r : same) lengths.push_back(std::ssize(rows[r].response));
    for (const Part& part : PartsWithin(lengths, std::max<int64_t>(1, max_tokens - prompt))) {
      Answers& answers = items.emplace_back();
      answers.tokens = prompt;
      for (const int64_t i : part) {
        answers.rows.push_back(same[static_cast<size_t>(i)]);
        answers.tokens += lengths[static_cast<size_t>(i)];
      }
    }
  }
  return items;
}

}  // namespace

Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen) {
  Packer packer;
  while (!chosen.empty()) {
    const size_t same = SamePrompts(rows, chosen);
    packer.Add(rows, chosen.first(same));
    chosen = chosen.subspan(same);
  }
  return std::move(packer).Take();
}

std::vector<std::vector<size_t>> MicroBatches(std::span<const Row> rows,
                                              std::span<const size_t> chosen, int64_t max_tokens,
                                              int64_t max_rows) {
  std::vector<std::vector<size_t>> batches;
  if (max_rows > 0) {
    const size_t step = static_cast<size_t>(max_rows);
    for (; !chosen.empty(); chosen = chosen.subspan(std::min(step, chosen.size())))
      batches.emplace_back(chosen.begin(), chosen.begin() + std::min(step, chosen.size()));
    return batches;
  }
  const std::vector<Answers> items = ShareOut(rows, chosen, max_tokens);
  std::vector<int64_t> lengths;
  for (const Answers& answers : items) lengths.push_back(answers.tokens);
  for (const Part& part : PartsWithin(lengths, max_tokens)) {
    std::vector<size_t>& batch = batches.emplace_back();
    for (const int64_t i : part) {
      const Answers& answers = items[static_cast<size_t>(i)];
      batch.insert(batch.end(), answers.rows.begin(), answers.rows.end());
    }
  }
  return batches;
}

}  // namespace nxdkit::trainer
