#include "formats/nxd/detect.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/digest.h"

namespace nxdkit::nxd {
namespace {

using models::Hardware;

const StoredTensor* FindContaining(const TensorFile& file, std::string_view part, std::string_view end) {
  for (const StoredTensor& tensor : file.tensors)
    if (tensor.name.find(part) != std::string::npos && tensor.name.ends_with(end)) return &tensor;
  return nullptr;
}

// The first tensor of any pipeline rank of tensor parallel rank `tp` whose name fits.
const StoredTensor* FindOnRank(const ShardSet& set, int tp, std::string_view part, std::string_view end) {
  for (const Shard& shard : set.shards) {
    if (shard.file.tp != tp) continue;
    if (const StoredTensor* tensor = FindContaining(shard.tensors, part, end)) return tensor;
  }
  return nullptr;
}

template <typename T>
Status Check(const char* what, const T& proven, const std::optional<T>& claimed, const std::string& origin,
             const auto& text) {
  if (!claimed || *claimed == proven) return OkStatus();
  return Error(Errc::kUsage, fmt::format("{} {} by the set's names and shapes, but {} by {}", what, text(proven),
                                         text(*claimed), origin));
}

Error Shape0(const StoredTensor& tensor, std::string what) {
  return Error(Errc::kCorrupt, std::move(what)).on(tensor.name).in(tensor.storage->path());
}

// The multiplier that the rows of the stored key projection stand for.
Result<int> Multiplier(const StoredTensor& tensor, const models::ModelConfig& config, int tp, bool fused) {
  if (tensor.shape.empty()) return Shape0(tensor, "a scalar found, expected a matrix");
  const int64_t heads_stored = tensor.shape[0] * tp;
  const int64_t query_rows = fused ? config.heads * config.head_dim : 0;
  const int64_t unit = (fused ? 2 : 1) * config.kv_heads * config.head_dim;
  const int64_t rest = heads_stored - query_rows;
  if (rest <= 0 || rest % unit != 0)
    return Shape0(tensor, fmt::format("{} rows on tp {} are no multiple of {} key heads of {} rows{}", tensor.shape[0], tp,
                                      config.kv_heads, config.head_dim,
                                      fused ? fmt::format(" beside {} query heads", config.heads) : std::string()))
        .hint("is the config the one of this model?");
  return static_cast<int>(rest / unit);
}

struct Style {
  QkvStyle qkv = QkvStyle::kSeparate;
  NameStyle names = NameStyle::kHf;
  const StoredTensor* key = nullptr;  // proves the multiplier; nullptr: it is 1
};

Result<Style> StyleOf(const ShardSet& set) {
  Style style;
  if (FindOnRank(set, 0, "language_model.", "")) {
    style.names = NameStyle::kMegatron;
    return style;
  }
  if (const StoredTensor* key = FindOnRank(set, 0, ".qkv_proj.", ".weight_k")) return Style{QkvStyle::kLinear, NameStyle::kHf, key};
  if (const StoredTensor* all = FindOnRank(set, 0, ".qkv_proj.", ".weight_qkv")) return Style{QkvStyle::kFused, NameStyle::kHf, all};
  if (FindOnRank(set, 0, ".qkv_proj.", ".weight")) return Style{QkvStyle::kCoalesced, NameStyle::kHf, nullptr};
  if (FindOnRank(set, 0, ".q_proj.", ".weight")) return style;
  return Error(Errc::kUnsupported, "no known q/k/v projection among the tensor names").in(set.location.shard_folder);
}

// Digest of each key slot's rows over all ranks, in slot order.
Result<std::vector<Sha256Bytes>> SlotDigests(const ShardSet& set, const models::ModelConfig& config,
                                             const Geometry& geometry) {
  const bool fused = geometry.qkv == QkvStyle::kFused;
  const int64_t slots = config.kv_heads * geometry.kv_multiplier / geometry.tp;
  const int64_t first_row = fused ? config.heads * config.head_dim / geometry.tp : 0;
  std::vector<Sha256Bytes> digests;
  std::string name;
  for (int t = 0; t < geometry.tp; ++t) {
    const StoredTensor* key = nullptr;
    if (name.empty()) key = FindOnRank(set, t, ".qkv_proj.", fused ? ".weight_qkv" : ".weight_k");
    else key = FindOnRank(set, t, name, name);
    if (!key || key->shape.size() != 2) return Error(Errc::kCorrupt, "the key projection is missing").rank(t).in(set.location.shard_folder);
    name = key->name;
    if (key->shape[0] < first_row + slots * config.head_dim) return Shape0(*key, fmt::format("{} rows found, {} expected", key->shape[0], first_row + slots * config.head_dim)).rank(t);
    const int64_t row_bytes = key->shape[1] * ElementBytes(key->dtype);
    if (!IsPacked(*key)) return Error(Errc::kUnsupported, "the key projection is not stored row by row").on(key->name).rank(t);
    std::vector<std::byte> row(row_bytes);
    for (int64_t slot = 0; slot < slots; ++slot) {
      Sha256 digest;
      for (int64_t r = 0; r < config.head_dim; ++r) {
        const int64_t at = first_row + slot * config.head_dim + r;
        NXDKIT_TRY(key->storage->ReadAt(key->offset + at * row_bytes, row));
        digest.Update(row);
      }
      digests.push_back(digest.Finish());
    }
  }
  return digests;
}

// One claim from several sources: the first that speaks.
template <typename T>
std::pair<std::optional<T>, std::string> First(const std::vector<Claims>& claims, std::optional<T> Claims::*field) {
  for (const Claims& claim : claims)
    if (claim.*field) return {claim.*field, claim.origin};
  return {std::nullopt, ""};
}

std::string HardwareText(Hardware hardware) { return hardware == Hardware::kTrn1 ? "trn1" : "trn2"; }

// The first query head that a rank pairs with another group's key head, when queries lie as on trn2
// and key heads as on trn1: "rank 1: query head 2 belongs to key head 0 but sits with key head 1".
std::string FirstWrongPair(const Geometry& geometry, const models::ModelConfig& config) {
  const auto query = models::TrainingPlacement(config.heads, config.kv_heads, geometry.kv_multiplier,
                                               geometry.tp, Hardware::kTrn2);
  const auto kv = models::TrainingPlacement(config.heads, config.kv_heads, geometry.kv_multiplier,
                                            geometry.tp, Hardware::kTrn1);
  if (!query.ok() || !kv.ok()) return "";
  models::Placement mixed = *query;
  for (size_t rank = 0; rank < mixed.size(); ++rank) mixed[rank].kv = (*kv)[rank].kv;
  const Status status = models::CheckPlacement(mixed, config.heads, config.kv_heads);
  return status.ok() ? "" : status.error().ToString();
}

Error WrongReplicas(Hardware claimed, ReplicaOrder found, const std::string& origin, const Geometry& geometry,
                    const models::ModelConfig& config) {
  if (found == ReplicaOrder::kNeither)
    return Error(Errc::kCorrupt, "the copies of a key head differ between ranks, tiled as well as adjacent; none of them "
                                 "can be dropped")
        .hint("a trn2 model trained from scratch with NxD starts like that: its copies are different heads");
  if (claimed == Hardware::kTrn2 && found == ReplicaOrder::kTiled)
    return Error(Errc::kCorrupt,
                 fmt::format("{} says trn2, where the {} copies of a key head lie on adjacent ranks, but here they are tiled "
                             "over the ranks as on trn1; {}", origin, geometry.kv_multiplier,
                             FirstWrongPair(geometry, config)))
        .hint("NxD's checkpoint_converter.py writes such sets for --hw_backend trn2 with a kv_size_multiplier above 1; "
              "convert the original checkpoint again with nxd-convert --hw trn2");
  return Error(Errc::kCorrupt,
               fmt::format("{} says {}, but the {} copies of a key head are {}", origin, HardwareText(claimed),
                           geometry.kv_multiplier,
                           found == ReplicaOrder::kAdjacent ? "on adjacent ranks, as on trn2" : "tiled over the ranks, as on trn1"));
}

Result<Detected> DetectHardware(Detected detected, const ShardSet& set, const models::ModelConfig& config,
                                const std::vector<Claims>& claims, std::optional<Hardware> if_unknown) {
  if (detected.geometry.kv_multiplier == 1) return detected;
  NXDKIT_ASSIGN(detected.replicas, CompareReplicas(set, config, detected.geometry));
  const auto [claimed, origin] = First(claims, &Claims::hardware);
  const bool tiled = detected.replicas == ReplicaOrder::kTiled || detected.replicas == ReplicaOrder::kBoth;
  const bool adjacent = detected.replicas == ReplicaOrder::kAdjacent || detected.replicas == ReplicaOrder::kBoth;
  if (claimed) {
    if (*claimed == Hardware::kTrn1 ? !tiled : !adjacent)
      return WrongReplicas(*claimed, detected.replicas, origin, detected.geometry, config).in(set.location.shard_folder);
    detected.geometry.hardware = *claimed;
    return detected;
  }
  if (detected.replicas == ReplicaOrder::kNeither)
    return WrongReplicas(Hardware::kTrn1, detected.replicas, "", detected.geometry, config).in(set.location.shard_folder);
  if (detected.replicas == ReplicaOrder::kAdjacent) {
    detected.geometry.hardware = Hardware::kTrn2;
    return detected;
  }
  if (if_unknown && (*if_unknown == Hardware::kTrn1 || adjacent)) {
    detected.geometry.hardware = *if_unknown;
    return detected;
  }
  return Error(Errc::kUsage, fmt::format("key heads are stored {} times, tiled over the ranks: right for trn1, but NxD's "
                                         "converter also writes that for trn2, with the query heads in another order; the "
                                         "set does not say which it is", detected.geometry.kv_multiplier))
      .in(set.location.shard_folder)
      .hint("say --hw trn1 if the set was trained or converted for trn1");
}

}  // namespace

Result<ReplicaOrder> CompareReplicas(const ShardSet& set, const models::ModelConfig& config, const Geometry& geometry) {
  const int64_t m = geometry.kv_multiplier;
  if (m == 1) return ReplicaOrder::kNone;
  NXDKIT_ASSIGN(const std::vector<Sha256Bytes> slots, SlotDigests(set, config, geometry));
  bool tiled = true;
  bool adjacent = true;
  for (size_t s = 0; s < slots.size(); ++s) {
    tiled &= slots[s] == slots[s % config.kv_heads];
    adjacent &= slots[s] == slots[s / m * m];
  }
  if (tiled && adjacent) return ReplicaOrder::kBoth;
  return tiled ? ReplicaOrder::kTiled : adjacent ? ReplicaOrder::kAdjacent : ReplicaOrder::kNeither;
}

Result<Detected> Detect(const ShardSet& set, const models::ModelConfig& config, const std::vector<Claims>& claims,
                        std::optional<Hardware> hardware_if_unknown) {
  Detected detected;
  Geometry& geometry = detected.geometry;
  geometry.tp = set.location.tp;
  geometry.pp = set.location.pp;
  NXDKIT_ASSIGN(const Style style, StyleOf(set));
  geometry.qkv = style.qkv;
  geometry.names = style.names;
  geometry.fused_gate_up = !FindOnRank(set, 0, ".mlp.gate_proj.", "");
  if (style.key) {
    NXDKIT_ASSIGN(geometry.kv_multiplier, Multiplier(*style.key, config, geometry.tp, style.qkv == QkvStyle::kFused));
  }
  const auto number = [](int n) { return fmt::format("is {}", n); };
  const auto qkv = [](QkvStyle s) { return fmt::format("is {}", QkvStyleName(s)); };
  const auto names = [](NameStyle s) { return std::string(s == NameStyle::kHf ? "are hf" : "are megatron"); };
  for (const Claims& claim : claims) {
    NXDKIT_TRY(Check<int>("tp", geometry.tp, claim.tp, claim.origin, number));
    NXDKIT_TRY(Check<int>("pp", geometry.pp, claim.pp, claim.origin, number));
    NXDKIT_TRY(Check<int>("ep", set.location.ep, claim.ep, claim.origin, number));
    NXDKIT_TRY(Check<int>("the kv multiplier", geometry.kv_multiplier, claim.kv_multiplier, claim.origin, number));
    NXDKIT_TRY(Check<QkvStyle>("the q/k/v style", geometry.qkv, claim.qkv, claim.origin, qkv));
    NXDKIT_TRY(Check<NameStyle>("the tensor names", geometry.names, claim.names, claim.origin, names));
  }
  geometry.vpp = First(claims, &Claims::vpp).first.value_or(1);
  return DetectHardware(std::move(detected), set, config, claims, hardware_if_unknown);
}

}  // namespace nxdkit::nxd
