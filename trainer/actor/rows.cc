#include "trainer/actor/rows.h"

namespace nxdkit::trainer {

Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen) {
  Batch batch;
  batch.starts.push_back(0);
  for (const size_t r : chosen) {
    const Row& row = rows[r];
    const int32_t first = static_cast<int32_t>(batch.ids.size());
    const int32_t prompt = static_cast<int32_t>(row.prompt.size());
    batch.ids.insert(batch.ids.end(), row.prompt.begin(), row.prompt.end());
    batch.ids.insert(batch.ids.end(), row.response.begin(), row.response.end() - 1);
    for (int32_t position = 0; first + position < static_cast<int32_t>(batch.ids.size());
         ++position)
      batch.positions.push_back(position);
    for (int32_t k = 0; k < static_cast<int32_t>(row.response.size()); ++k)
      batch.targets.push_back({first + prompt + k - 1, row.response[static_cast<size_t>(k)]});
    batch.starts.push_back(static_cast<int32_t>(batch.ids.size()));
  }
  return batch;
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
