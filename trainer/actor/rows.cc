#include "trainer/actor/rows.h"

#include <utility>

namespace nxdkit::trainer {

namespace {

class Packer {
 public:
  // The answers to one prompt: alone they are one sequence with it, several go on from it.
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

}  // namespace

Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen) {
  Packer packer;
  for (size_t first = 0, end = 0; first < chosen.size(); first = end) {
    const std::vector<int32_t>& prompt = rows[chosen[first]].prompt;
    while (end < chosen.size() && rows[chosen[end]].prompt == prompt) ++end;
    packer.Add(rows, chosen.subspan(first, end - first));
  }
  return std::move(packer).Take();
}

std::vector<std::vector<size_t>> MicroBatches(std::span<const Row> rows,
                                              std::span<const size_t> chosen, int64_t max_tokens,
                                              int64_t max_rows) {
  std::vector<std::vector<size_t>> batches;
  int64_t tokens = 0;
  for (const size_t r : chosen) {
    const bool full = batches.empty() || tokens + rows[r].tokens() > max_tokens ||
                      (max_rows > 0 && static_cast<int64_t>(batches.back().size()) >= max_rows);
    if (full) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(r);
    tokens += rows[r].tokens();
  }
  return batches;
}

}  // namespace nxdkit::trainer
