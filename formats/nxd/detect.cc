#include "formats/nxd/detect.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/nxd/detect_steps.h"
#include "formats/nxd/grid.h"
#include "lib/base/checked.h"

namespace nxdkit::nxd {

const StoredTensor* FindOnRank(const ShardSet& set, int tp, std::string_view part,
                               std::string_view end) {
  for (const Shard& shard : set.shards) {
    if (shard.file.tp != tp) continue;
    for (const StoredTensor& tensor : shard.tensors.tensors)
      if (tensor.name.find(part) != std::string::npos && tensor.name.ends_with(end)) return &tensor;
  }
  return nullptr;
}

namespace {

struct Style {
  QkvStyle qkv = QkvStyle::kSeparate;
  NameStyle names = NameStyle::kHf;
  const StoredTensor* key = nullptr;  // proves the multiplier; nullptr: it is 1
};

Result<Style> StyleOf(const ShardSet& set, const models::Family& family) {
  if (const StoredTensor* adapter = FindOnRank(set, 0, ".lora_", ""))
    return Error(Errc::kUnsupported,
                 "a LoRA adapter; what can be read here is a model, with its adapters merged")
        .in(set.location.shard_folder)
        .on(adapter->name)
        .hint("nxd-convert --merge-lora merges it into its base");
  if (!models::SplitsQkv(family)) return Style{};
  if (FindOnRank(set, 0, "language_model.", ""))
    return Style{QkvStyle::kSeparate, NameStyle::kMegatron};
  const NameStyle names = FindOnRank(set, 0, ".mlp.moe.", "") ? NameStyle::kNxdt : NameStyle::kHf;
  if (const StoredTensor* key = FindOnRank(set, 0, ".qkv_proj.", ".weight_k"))
    return Style{QkvStyle::kLinear, names, key};
  if (const StoredTensor* all = FindOnRank(set, 0, ".qkv_proj.", ".weight_qkv"))
    return Style{QkvStyle::kFused, names, all};
  if (FindOnRank(set, 0, ".qkv_proj.", ".weight")) return Style{QkvStyle::kCoalesced, names};
  if (FindOnRank(set, 0, ".q_proj.", ".weight")) return Style{QkvStyle::kSeparate, names};
  return Error(Errc::kUnsupported, "no known q/k/v projection among the tensor names")
      .in(set.location.shard_folder);
}

}  // namespace

Result<int> Multiplier(const StoredTensor& tensor, const models::ModelConfig& config, int tp,
                       bool fused) {
  const int64_t local_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  const int64_t query_rows = fused ? config.heads * config.head_dim : 0;
  const int64_t unit = (fused ? 2 : 1) * config.kv_heads * config.head_dim;
  const auto rows = CheckedMul<int64_t>(local_rows, tp);
  const int64_t rest = rows.value_or(0) - query_rows;
  // More copies than query heads could never be placed.
  if (rest > 0 && rest % unit == 0 && rest / unit <= config.heads)
    return static_cast<int>(rest / unit);
  return Error(Errc::kCorrupt,
               fmt::format("{} rows on tp {} are not a multiple of {} key heads of {} rows{}",
                           local_rows, tp, config.kv_heads, config.head_dim,
                           fused ? fmt::format(" next to {} query heads", config.heads) : ""))
      .on(tensor.name)
      .in(tensor.storage->path())
      .hint(fmt::format("is the config the one of this model, and is tp rank {} the last one?",
                        tp - 1));
}

namespace {

template <typename T>
Status Check(const char* what, const T& proven, const std::optional<T>& claimed,
             const Claims& claims, const auto& text) {
  if (!claimed || *claimed == proven) return OkStatus();
  // A record in the set against the set's shapes: the set is at fault, not the command line.
  const Errc code = claims.in_set ? Errc::kCorrupt : Errc::kUsage;
  return Error(code, fmt::format("{} {} by the set's names and shapes, but {} by {}", what,
                                 text(proven), text(*claimed), claims.origin));
}

}  // namespace

// Ranks that are missing at the end show only by a record that is in the set.
Status CheckGridClaims(const ShardSet& set, const Claims& claim) {
  const SetLocation& location = set.location;
  const GridSizes recorded = {std::max(location.tp, claim.tp.value_or(0)),
                              std::max(location.pp, claim.pp.value_or(0)),
                              std::max(location.ep, claim.ep.value_or(0)), 1};
  if (claim.in_set &&
      (recorded.tp > location.tp || recorded.pp > location.pp || recorded.ep > location.ep)) {
    std::vector<ShardFile> files;
    for (const Shard& shard : set.shards) files.push_back(shard.file);
    return RequireGrid(files, recorded, claim.origin);
  }
  const auto number = [](int n) { return fmt::format("is {}", n); };
  NXDKIT_TRY(Check("tp", location.tp, claim.tp, claim, number));
  NXDKIT_TRY(Check("pp", location.pp, claim.pp, claim, number));
  return Check("ep", location.ep, claim.ep, claim, number);
}

Status CheckClaims(const Geometry& geometry, const Claims& claim) {
  const auto number = [](int n) { return fmt::format("is {}", n); };
  const auto qkv = [](QkvStyle s) { return fmt::format("is {}", QkvStyleName(s)); };
  const auto names = [](NameStyle s) { return fmt::format("are {}", NameStyleName(s)); };
  NXDKIT_TRY(
      Check("the kv multiplier", geometry.kv_multiplier, claim.kv_multiplier, claim, number));
  NXDKIT_TRY(Check("the tensor names", geometry.names, claim.names, claim, names));
  // Megatron names know one form of q/k/v only.
  if (geometry.names == NameStyle::kMegatron) return OkStatus();
  return Check("the q/k/v style", geometry.qkv, claim.qkv, claim, qkv);
}

namespace {

// NxDT's Megatron attention with megatron_legacy=False views the rows of a fused projection head by
// head; with one key head on a rank both are the same.
void WarnOfBlockOrder(const models::ModelConfig& config, Detected& detected) {
  const Geometry& geometry = detected.geometry;
  if (geometry.names != NameStyle::kMegatron || config.kv_heads <= geometry.tp) return;
  detected.warnings.push_back(fmt::format(
      "the {} key heads of a rank are assumed to be in block order, as NxD's converter writes them "
      "and megatron_legacy=True reads them; a set that was trained with megatron_legacy=False has "
      "them interleaved, and does not say so",
      config.kv_heads / geometry.tp));
}

}  // namespace

Result<Detected> Detect(const ShardSet& set, const models::ModelConfig& config,
                        const std::vector<Claims>& claims,
                        std::optional<models::Hardware> hardware_if_unknown) {
  Detected detected;
  Geometry& geometry = detected.geometry;
  geometry.tp = set.location.tp;
  geometry.pp = set.location.pp;
  geometry.ep = set.location.ep;
  for (const Claims& claim : claims) {
    Status agrees = CheckGridClaims(set, claim);
    if (!agrees.ok()) return std::move(agrees).error().in(set.location.shard_folder);
  }
  NXDKIT_ASSIGN(const Style style, StyleOf(set, *config.family));
  geometry.qkv = style.qkv;
  geometry.names = style.names;
  geometry.fused_gate_up = !FindOnRank(set, 0, ".mlp.gate_proj.", "");
  if (style.key) {
    const bool fused = style.qkv == QkvStyle::kFused;
    NXDKIT_ASSIGN(geometry.kv_multiplier, Multiplier(*style.key, config, geometry.tp, fused));
  }
  for (const Claims& claim : claims) {
    Status agrees = CheckClaims(geometry, claim);
    if (!agrees.ok()) return std::move(agrees).error().in(set.location.shard_folder);
  }
  Result<models::Placement> heads = HeadPlacement(config, geometry);
  if (!heads.ok()) return std::move(heads).error().in(set.location.shard_folder);
  NXDKIT_TRY(DetectStages(set, config, claims, detected));
  NXDKIT_TRY(DetectHardware(set, config, claims, hardware_if_unknown, detected));
  WarnOfBlockOrder(config, detected);
  return detected;
}

}  // namespace nxdkit::nxd
