#include "formats/models/gqa.h"

#include <fmt/core.h>

#include "lib/base/errors.h"

namespace nxdkit::models {

std::string_view HardwareName(Hardware hardware) {
  return hardware == Hardware::kTrn1 ? "trn1" : "trn2";
}

Error CannotSplitHeads(int64_t heads, int64_t tp) {
  constexpr int64_t kMostListed = 128;  // nobody asks for more ranks per model
  std::string divisors;
  for (int64_t each = 1; each <= heads && each <= kMostListed; ++each)
    if (heads % each == 0) divisors += fmt::format("{}{}", divisors.empty() ? "" : ", ", each);
  return Unsupported("{} query heads cannot be split over tp {}", heads, tp)
      .hint(fmt::format("tp can be {}; sets with padded heads are not supported", divisors));
}

Result<Placement> TrainingPlacement(int64_t heads, int64_t kv_heads, int64_t multiplier, int64_t tp,
                                    Hardware hardware) {
  const int64_t slots = kv_heads * multiplier;
  if (heads % tp != 0) return CannotSplitHeads(heads, tp);
  if (slots % tp != 0)
    return Unsupported("{} key heads times kv multiplier {} cannot be split over tp {}", kv_heads,
                       multiplier, tp)
        .hint(tp % kv_heads == 0
                  ? fmt::format("use --kv-multiplier {}", tp / kv_heads)
                  : std::string("use a tp that is a multiple or a divisor of the key heads"));
  if (heads % slots != 0)
    return Unsupported("{} query heads cannot be split over {} key heads times kv multiplier {}",
                       heads, kv_heads, multiplier);
  const int64_t slots_per_rank = slots / tp;
  const int64_t queries_per_slot = heads / slots;
  Placement placement(tp);
  for (int64_t slot = 0; slot < slots; ++slot) {
    RankHeads& rank = placement[slot / slots_per_rank];
    const bool tiled = hardware == Hardware::kTrn1;
    const int64_t kv = tiled ? slot % kv_heads : slot / multiplier;
    const int64_t replica = tiled ? slot / kv_heads : slot % multiplier;
    rank.kv.push_back(kv);
    for (int64_t i = 0; i < queries_per_slot; ++i)
      rank.query.push_back(kv * (heads / kv_heads) + replica * queries_per_slot + i);
  }
  return placement;
}

Result<Placement> PlainPlacement(int64_t heads, int64_t kv_heads, int64_t tp) {
  if (heads % tp != 0) return CannotSplitHeads(heads, tp);
  if (kv_heads % tp != 0)
    return Unsupported(
               "{} key heads cannot be split over tp {} without replication: a rank would hold "
               "part of a head",
               kv_heads, tp)
        .hint("use --qkv linear with --kv-multiplier");
  return TrainingPlacement(heads, kv_heads, 1, tp, Hardware::kTrn2);
}

std::string GqaStrategyName(GqaStrategy strategy) {
  return strategy == GqaStrategy::kReplicateToTpDegree ? "replicate-to-tp-degree"
                                                       : "convert-to-mha";
}

namespace {

// Query slots: REPLICATE pads after each group of heads that share a key head, CONVERT at the end.
std::vector<int64_t> QuerySlots(int64_t heads, int64_t kv_heads, int64_t padded,
                                GqaStrategy strategy) {
  std::vector<int64_t> slots;
  const int64_t group = heads / kv_heads;
  const int64_t pad =
      strategy == GqaStrategy::kReplicateToTpDegree ? (padded - heads) / kv_heads : 0;
  for (int64_t head = 0; head < heads; ++head) {
    slots.push_back(head);
    if ((head + 1) % group == 0) slots.insert(slots.end(), pad, kZeroHead);
  }
  slots.resize(padded, kZeroHead);
  return slots;
}

}  // namespace

RolloutHeads RolloutPlacement(int64_t heads, int64_t kv_heads, int64_t tp) {
  RolloutHeads out;
  out.strategy =
      tp % kv_heads == 0 ? GqaStrategy::kReplicateToTpDegree : GqaStrategy::kConvertToMha;
  out.padded_query = heads + (tp - heads % tp) % tp;
  const bool must_grow = kv_heads < tp || kv_heads % tp != 0;
  if (heads == kv_heads)
    out.padded_kv = out.padded_query;
  else if (must_grow)
    out.padded_kv = out.strategy == GqaStrategy::kReplicateToTpDegree ? tp : out.padded_query;
  else
    out.padded_kv = kv_heads;
  int64_t repeat = 1;
  if (out.padded_kv != kv_heads)
    repeat = out.strategy == GqaStrategy::kReplicateToTpDegree ? tp / kv_heads : heads / kv_heads;

  const std::vector<int64_t> query = QuerySlots(heads, kv_heads, out.padded_query, out.strategy);
  std::vector<int64_t> kv;
  for (int64_t head = 0; head < kv_heads; ++head) kv.insert(kv.end(), repeat, head);
  kv.resize(out.padded_kv, kZeroHead);

  out.placement.resize(tp);
  const int64_t n = out.padded_query / tp;
  const int64_t c = out.padded_kv / tp;
  for (int64_t rank = 0; rank < tp; ++rank) {
    out.placement[rank].query.assign(query.begin() + rank * n, query.begin() + (rank + 1) * n);
    out.placement[rank].kv.assign(kv.begin() + rank * c, kv.begin() + (rank + 1) * c);
  }
  return out;
}

Status CheckPlacement(const Placement& placement, int64_t heads, int64_t kv_heads) {
  const int64_t group = heads / kv_heads;
  for (size_t rank = 0; rank < placement.size(); ++rank) {
    const RankHeads& local = placement[rank];
    for (size_t slot = 0; slot < local.query.size(); ++slot) {
      const int64_t head = local.query[slot];
      if (head == kZeroHead) continue;
      const int64_t met = local.kv[slot * local.kv.size() / local.query.size()];
      if (met != head / group)
        return Error(Errc::kInternal,
                     fmt::format("query head {} belongs to key head {} but sits with key head {}",
                                 head, head / group, met))
            .rank(static_cast<int64_t>(rank));
    }
  }
  return OkStatus();
}

}  // namespace nxdkit::models
