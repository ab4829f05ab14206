// Prompts with their responses, packed into batches for the decoder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model/decoder.h"

namespace nxdkit::trainer {

// One sampled sequence. Both parts have at least one token; the response ends with its end token,
// if it came to one.
struct Row {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  int64_t tokens() const { return static_cast<int64_t>(prompt.size() + response.size()); }
};

// rows[chosen[0]], rows[chosen[1]]... behind one another, neighbours with the same prompt with one
// copy of it; the targets are the tokens of the responses, in order. The last token of a row is
// only a label: nothing is asked of it.
Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen);

// Chosen rows in micro-batches: consecutive, each of at most `max_tokens` tokens in all (a longer
// row alone), and, with `max_rows` > 0, of at most so many rows.
std::vector<std::vector<size_t>> MicroBatches(std::span<const Row> rows,
                                              std::span<const size_t> chosen, int64_t max_tokens,
                                              int64_t max_rows);

}  // namespace nxdkit::trainer
