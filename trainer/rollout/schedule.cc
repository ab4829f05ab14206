#include "trainer/rollout/schedule.h"

#include <algorithm>

namespace nxdkit::trainer {
namespace {

int64_t CommonPrefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return end - a.begin();
}

}  // namespace

Schedule::Schedule(std::span<const RolloutRequest> requests, int64_t slots, int64_t positions,
                   int64_t rows)
    : requests_(requests),
      positions_(positions),
      rows_(std::max(rows, slots)),
      slots_(static_cast<size_t>(slots)),
      responses_(requests.size()) {}

// Takes over tokens that are already in a cache; waits for a slot that is about to have more of
// them.
void Schedule::FindPrefix(int index, Pass& pass) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  const int64_t most = slot.prompt - 1;  // the last token is processed for its logits
  int best = -1;
  int64_t there = slot.cached, coming = slot.cached;
  slot.waiting_for = -1;
  for (int i = 0; i < static_cast<int>(slots_.size()); ++i) {
    const Slot& other = slots_[static_cast<size_t>(i)];
    if (i == index) continue;
    const int64_t common = std::min(most, CommonPrefix(slot.tokens, other.tokens));
    if (const int64_t now = std::min(common, other.cached); now > there) {
      there = now;
      best = i;
    }
    // A slot that waits itself would do, but then possibly none processes the prompt.
    const bool reads = other.reading() && other.waiting_for < 0;
    if (const int64_t then = std::min(common, other.prompt); reads && then > coming) {
      coming = then;
      slot.waiting_for = i;
    }
  }
  if (coming > there) return;
  slot.waiting_for = -1;
  if (best < 0) return;
  pass.copies.push_back({best, index, there});
  copied_tokens_ += there - slot.cached;
  slot.cached = there;
}

void Schedule::Refill(Pass& pass) {
  // Waiting slots come first: the one they wait for may be done, and about to be reused.
  for (int i = 0; i < static_cast<int>(slots_.size()); ++i)
    if (slots_[static_cast<size_t>(i)].waiting_for >= 0) FindPrefix(i, pass);
  for (int i = 0; i < static_cast<int>(slots_.size()); ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    if (slot.busy || next_ == requests_.size()) continue;
    const std::vector<int32_t>& prompt = requests_[next_].prompt;
    const int64_t kept = std::min(slot.cached, CommonPrefix(slot.tokens, prompt));
    slot.busy = true;
    slot.request = next_++;
    slot.tokens = prompt;
    slot.prompt = std::ssize(prompt);
    slot.cached = std::min(kept, slot.prompt - 1);
    copied_tokens_ += slot.cached;
    FindPrefix(i, pass);
  }
}

bool Schedule::Next(Pass& pass) {
  pass.copies.clear();
  pass.places.clear();
  pass.ids.clear();
  pass.wanted.clear();
  Refill(pass);
  const auto add = [&](int32_t index, int64_t count) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    for (int64_t i = 0; i < count; ++i, ++slot.cached) {
      pass.places.push_back({index, static_cast<int32_t>(slot.cached)});
      pass.ids.push_back(slot.tokens[static_cast<size_t>(slot.cached)]);
    }
    const int64_t tokens = std::ssize(slot.tokens);
    if (slot.cached == tokens)
      pass.wanted.push_back({static_cast<int32_t>(pass.places.size()) - 1, index, slot.request,
                             static_cast<uint32_t>(tokens - slot.prompt)});
  };
  const int32_t slots = static_cast<int32_t>(slots_.size());
  for (int32_t i = 0; i < slots; ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    if (slot.busy && !slot.reading()) add(i, 1);
  }
  for (int32_t i = 0; i < slots; ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    const int64_t room = rows_ - std::ssize(pass.places);
    if (slot.reading() && slot.waiting_for < 0) add(i, std::min(room, slot.prompt - slot.cached));
  }
  return !pass.places.empty();
}

bool Schedule::Accept(const Pass::Wanted& wanted, int32_t token, float log_prob) {
  Slot& slot = slots_[static_cast<size_t>(wanted.slot)];
  const SamplingParams& sampling = requests_[slot.request].sampling;
  RolloutResponse& response = responses_[slot.request];
  response.ids.push_back(token);
  if (sampling.log_probs) response.log_probs.push_back(log_prob);
  slot.tokens.push_back(token);
  const bool stops = !sampling.ignore_eos &&
                     std::ranges::find(sampling.stop_tokens, token) != sampling.stop_tokens.end();
  response.reason = stops ? FinishReason::kStop : FinishReason::kLength;
  slot.busy = !stops && std::ssize(response.ids) < sampling.max_tokens &&
              std::ssize(slot.tokens) < positions_;
  return !slot.busy;
}

}  // namespace nxdkit::trainer
