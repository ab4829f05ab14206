// The placement of attention heads on tensor parallel ranks, for training and for rollout.
//
// Both sides pair local slots: on a rank with n query slots and c key slots, query slot s attends
// key slot s * c / n. A placement is correct when every query head is paired with its own key head.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::models {

inline constexpr int64_t kZeroHead = -1;  // a padding slot that holds zeros

struct RankHeads {
  std::vector<int64_t> query;  // head of each local query slot, or kZeroHead
  std::vector<int64_t> kv;     // head of each local key/value slot, or kZeroHead
};
using Placement = std::vector<RankHeads>;  // one per rank

enum class Hardware { kTrn1, kTrn2 };
std::string_view HardwareName(Hardware hardware);  // "trn1", "trn2"

// NxD's GQAQKVColumnParallelLinear with kv_size_multiplier m. Slot S = rank * (kv * m / tp) + s
// holds
//   trn1 (replicas tiled):    key head S mod kv, query heads of its replica S div kv
//   trn2 (replicas adjacent): key head S div m, query heads in natural order
// kUnsupported unless tp | heads, tp | kv * m and kv * m | heads.
// Source: NxD 0.18 layers; equals optimum-neuron's permutation.
Result<Placement> TrainingPlacement(int64_t heads, int64_t kv_heads, int64_t multiplier, int64_t tp,
                                    Hardware hardware);

// kUnsupported: `heads` query heads that `tp` ranks cannot share; the hint lists the tp that can.
Error CannotSplitHeads(int64_t heads, int64_t tp);

// Plain column slices without replication: natural order. kUnsupported unless tp divides both.
Result<Placement> PlainPlacement(int64_t heads, int64_t kv_heads, int64_t tp);

enum class GqaStrategy { kReplicateToTpDegree, kConvertToMha };
std::string GqaStrategyName(GqaStrategy strategy);  // "replicate-to-tp-degree"

// Rollout bundles (NxDI, optimum-neuron): padded head counts and the contents of each slot.
struct RolloutHeads {
  GqaStrategy strategy;
  int64_t padded_query = 0;  // over all ranks
  int64_t padded_kv = 0;
  Placement placement;
};
RolloutHeads RolloutPlacement(int64_t heads, int64_t kv_heads, int64_t tp);

// kInternal naming rank, query head, its key head and the key head found instead; zero query slots
// may be paired with anything, real ones must be paired with their own key head.
Status CheckPlacement(const Placement& placement, int64_t heads, int64_t kv_heads);

}  // namespace nxdkit::models
