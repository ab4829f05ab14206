// Which tokens go through the model next: continuous batching over a fixed number of slots of a
// fixed length. Pure bookkeeping, the same on every rank.
//
// A pass holds one token of every sequence that is being generated and, in the room that is left,
// pieces of the prompts that are being read. A slot whose sequence has ended takes the next
// request at once. What another slot (or the slot itself) has in its cache of the beginning of a
// prompt is copied instead of read: the samples of one prompt read it once.
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
    int32_t row = 0;  // of the pass: its logits give the sequence's next token
    int32_t slot = 0;
    size_t request = 0;
    uint32_t position = 0;  // of the token to draw, in the response
  };
  std::vector<Copy> copies;  // before all else
  std::vector<CachePlace> places;
  std::vector<int32_t> ids;  // [places]
  std::vector<Wanted> wanted;
};

class Schedule {
 public:
  // Every prompt has from 1 to positions - 1 tokens. `rows` of a pass, at least `slots`.
  Schedule(std::span<const RolloutRequest> requests, int64_t slots, int64_t positions,
           int64_t rows);

  // Fills the next pass; false when all is done.
  bool Next(Pass& pass);
  // The token that was drawn for `wanted` of the last pass. True when the sequence has ended with
  // it: response(wanted.request) is whole.
  bool Accept(const Pass::Wanted& wanted, int32_t token, float log_prob);

  RolloutResponse& response(size_t request) { return responses_[request]; }
  std::vector<RolloutResponse> TakeResponses() && { return std::move(responses_); }
  int64_t copied_tokens() const { return copied_tokens_; }

 private:
  struct Slot {
    bool busy = false;
    size_t request = 0;
    std::vector<int32_t> tokens;  // prompt and response so far; stays when the sequence has ended
    int64_t prompt = 0;
    int64_t cached = 0;    // positions whose keys and values are there
    int waiting_for = -1;  // a slot that is reading what this one needs
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
