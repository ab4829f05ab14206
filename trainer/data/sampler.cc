#include "trainer/data/sampler.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <numeric>

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "trainer/base/rng.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxRows = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxJsonBytes = 4096;

// Uniform in [0, bound), by Lemire's method; draws that would favour some numbers are repeated.
uint32_t DrawBelow(PhiloxKey key, uint64_t epoch, uint32_t place, uint32_t bound) {
  const uint32_t unfair = -bound % bound;
  for (uint32_t attempt = 0;; ++attempt) {
    const PhiloxCounter words = Philox(
        {place, attempt, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)}, key);
    for (const uint32_t word : words) {
      const uint64_t scaled = uint64_t{word} * bound;
      if (static_cast<uint32_t>(scaled) >= unfair) return static_cast<uint32_t>(scaled >> 32);
    }
  }
}

Result<uint64_t> Number(const Json& json, std::string_view key, uint64_t most) {
  NXDKIT_ASSIGN(const int64_t value, JsonInt(json, key));
  if (value >= 0 && static_cast<uint64_t>(value) <= most) return static_cast<uint64_t>(value);
  return Corrupt("found {}, expected 0 to {}", value, most).member(key);
}

Error Changed(std::string_view what, std::string_view was, std::string_view is) {
  return Error(Errc::kFindings,
               fmt::format("cannot resume: the {} was {} and is {}", what, was, is))
      .hint("resume with the data and the settings of the checkpoint, or start a new run");
}

std::string_view OnOff(bool on) { return on ? "on" : "off"; }

}  // namespace

std::vector<uint32_t> EpochOrder(uint32_t rows, uint64_t seed, uint64_t epoch) {
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  const PhiloxKey key = MakeKey(seed, RandomUse::kShuffle);
  for (uint32_t left = rows; left > 1; --left)
    std::swap(order[left - 1], order[DrawBelow(key, epoch, left, left)]);
  return order;
}

std::string PositionToJson(const DataPosition& position) {
  // The seed as text: not all JSON readers keep 64 bits of a number.
  return DumpPython({{"seed", std::to_string(position.seed)},
                     {"shuffle", position.shuffle},
                     {"epoch", position.epoch},
                     {"next_row", position.next_row},
                     {"rows", position.rows},
                     {"fingerprint", position.fingerprint}});
}

Result<DataPosition> PositionFromJson(std::string_view text) {
  if (text.size() > kMaxJsonBytes)
    return Corrupt("data position of {} bytes, the limit is {}", text.size(), kMaxJsonBytes);
  constexpr uint64_t kAny = std::numeric_limits<int64_t>::max();
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  DataPosition position;
  NXDKIT_ASSIGN(const std::string seed, JsonString(json, "seed"));
  std::from_chars(seed.data(), seed.data() + seed.size(), position.seed);
  if (std::to_string(position.seed) != seed)
    return Corrupt("found '{}', expected a number", seed.substr(0, 40)).member("seed");
  NXDKIT_ASSIGN(position.shuffle, JsonBool(json, "shuffle"));
  NXDKIT_ASSIGN(position.epoch, Number(json, "epoch", kAny));
  NXDKIT_ASSIGN(position.rows, Number(json, "rows", kMaxRows));
  NXDKIT_ASSIGN(position.next_row, Number(json, "next_row", position.rows));
  NXDKIT_ASSIGN(position.fingerprint, JsonString(json, "fingerprint"));
  return position;
}

BatchSampler::BatchSampler(DataPosition position, uint64_t batch_rows)
    : position_(std::move(position)), batch_rows_(batch_rows) {
  StartEpoch();
}

void BatchSampler::StartEpoch() {
  const auto rows = static_cast<uint32_t>(position_.rows);
  if (position_.shuffle) {
    order_ = EpochOrder(rows, position_.seed, position_.epoch);
    return;
  }
  order_.resize(rows);
  std::iota(order_.begin(), order_.end(), 0U);
}

Result<BatchSampler> BatchSampler::Make(const DataPosition& position, int64_t batch_rows) {
  if (batch_rows < 1 || position.rows < static_cast<uint64_t>(batch_rows))
    return BadUsage("batches of {} rows from a data set of {}: none is whole", batch_rows,
                    position.rows);
  if (position.rows > kMaxRows || position.next_row > position.rows)
    return Corrupt("row {} of {}, the limit is {}", position.next_row, position.rows, kMaxRows);
  return BatchSampler(position, static_cast<uint64_t>(batch_rows));
}

Result<BatchSampler> BatchSampler::Resume(const DataPosition& saved, const DataPosition& today,
                                          int64_t batch_rows) {
  if (saved.fingerprint != today.fingerprint || saved.rows != today.rows)
    return Changed("data set", fmt::format("{} ({} rows)", saved.fingerprint, saved.rows),
                   fmt::format("{} ({} rows)", today.fingerprint, today.rows));
  if (saved.shuffle != today.shuffle)
    return Changed("shuffling", OnOff(saved.shuffle), OnOff(today.shuffle));
  if (saved.seed != today.seed)
    return Changed("seed", std::to_string(saved.seed), std::to_string(today.seed));
  return Make(saved, batch_rows);
}

std::vector<uint32_t> BatchSampler::Next() {
  if (position_.rows - position_.next_row < batch_rows_) {
    ++position_.epoch;
    position_.next_row = 0;
    StartEpoch();
  }
  const auto begin = order_.begin() + static_cast<ptrdiff_t>(position_.next_row);
  position_.next_row += batch_rows_;
  return {begin, begin + static_cast<ptrdiff_t>(batch_rows_)};
}

}  // namespace nxdkit::trainer
