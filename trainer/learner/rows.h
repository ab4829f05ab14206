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

// rows[chosen[0]], rows[chosen[1]]... one after another; neighbours with the same prompt share one
// copy of it. The targets are the tokens of the responses, in order. The last token of a row is
// only a label: it is no input.
Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen);

// Chosen rows in micro-batches, each row in one. With `max_rows` > 0 consecutive ones of that many
// rows; else (dynamic batching) of about equally many tokens, at most `max_tokens` each (a longer
// row alone), the costliest first. A token is counted as often as it is computed: neighbours with
// the same prompt stay together where they fit, and share one copy of it. Depends on the arguments
// alone, so that all ranks of a mesh find the same.
std::vector<std::vector<size_t>> MicroBatches(std::span<const Row> rows,
                                              std::span<const size_t> chosen, int64_t max_tokens,
                                              int64_t max_rows);

}  // namespace nxdkit::trainer
