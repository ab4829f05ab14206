// Prompts with their responses, packed into batches for the decoder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model/decoder.h"

namespace nxdkit::trainer {

// One sampled sequence. Both parts have at least one token; the response ends with its end token,
// if it reached one.
struct Row {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  int64_t tokens() const { return static_cast<int64_t>(prompt.size() + response.size()); }
};

// rows[chosen[0]], rows[chosen[1]]... one after another; neighbours with the same prompt share one
// copy of it. The targets are the tokens of the responses, in order. The last token of a row is
// only a label, not an input.
Batch PackRows(std::span<const Row> rows, std::span<const size_t> chosen);

// The chosen rows in micro-batches. With `max_rows` > 0, that many consecutive rows in each; else
// (dynamic batching) about equally many tokens, at most `max_tokens` each (a longer row is alone),
// the costliest first. A token counts as often as it is computed: neighbours with the same prompt
// stay together if they fit, and share one copy of it. It depends on the arguments alone, so all
// ranks of a mesh compute the same.
std::vector<std::vector<size_t>> MicroBatches(std::span<const Row> rows,
                                              std::span<const size_t> chosen, int64_t max_tokens,
                                              int64_t max_rows);

}  // namespace nxdkit::trainer
