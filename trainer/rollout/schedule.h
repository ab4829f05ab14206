// Chooses the tokens for the next pass of the model: continuous batching over a fixed number of
// slots of a fixed length. Pure bookkeeping, the same on every rank.
//
// A pass holds one token of every sequence being generated and, in the remaining room, pieces of
// prompts. A slot whose sequence has ended takes the next request at once. If another slot (or the
// slot itself) has the beginning of a prompt in its cache, it is copied instead of processed: the
// samples of one prompt process it once.
#pragma once

#include <span>
#include <vector>

#include "trainer/kernels/kv_cache.h"
#include "trainer/rollout/sampling.h"

namespace nxdkit::trainer {

struct Pass {
  struct Copy {
    int32_t from = 0;
    int32_t to = 0;
    int64_t positions = 0;
  };
  struct Wanted {
    int32_t row = 0;  // within the pass: its logits give the sequence's next token
    int32_t slot = 0;
    size_t request = 0;
    uint32_t position = 0;  // of the token to draw, in the response
  };
  std::vector<Copy> copies;  // performed first
  std::vector<CachePlace> places;
  std::vector<int32_t> ids;  // [places]
  std::vector<Wanted> wanted;
};

class Schedule {
 public:
  // Every prompt has from 1 to positions - 1 tokens. `rows` in a pass, at least `slots`.
  Schedule(std::span<const RolloutRequest> requests, int64_t slots, int64_t positions,
           int64_t rows);

  // Fills the next pass; false when everything is done.
  bool Next(Pass& pass);
  // Takes the token drawn for `wanted` of the last pass. True when it ends the sequence:
  // response(wanted.request) is complete.
  bool Accept(const Pass::Wanted& wanted, int32_t token, float log_prob);

  RolloutResponse& response(size_t request) { return responses_[request]; }
  std::vector<RolloutResponse> TakeResponses() && { return std::move(responses_); }
  int64_t copied_tokens() const { return copied_tokens_; }

 private:
  struct Slot {
    bool busy = false;
    size_t request = 0;
    std::vector<int32_t> tokens;  // prompt and response so far; kept after the sequence has ended
    int64_t prompt = 0;
    int64_t cached = 0;    // positions whose keys and values are cached
    int waiting_for = -1;  // a slot that is processing the tokens this one needs
    bool reading() const { return busy && cached < prompt; }
  };
  void Refill(Pass& pass);
  void FindPrefix(int index, Pass& pass);

  std::span<const RolloutRequest> requests_;
  const int64_t positions_;
  const int64_t rows_;
  size_t next_ = 0;
  std::vector<Slot> slots_;
  std::vector<RolloutResponse> responses_;
  int64_t copied_tokens_ = 0;
};

}  // namespace nxdkit::trainer
