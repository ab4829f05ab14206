#include "formats/nxd/detect_hardware.h"

#include <algorithm>

#include "formats/nxd/detect_steps.h"
#include "lib/base/errors.h"
#include "lib/hash/digest.h"
#include "lib/plan/gather.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::nxd {
namespace {

using models::Hardware;

// The most of a head that is in memory at a time.
constexpr int64_t kChunkColumns = 64 << 10;
constexpr int64_t kChunkElements = 1 << 20;

// The digest of `rows` rows from `first` on, independent of the strides.
Result<Sha256Bytes> RowsDigest(const StoredTensor& tensor, int64_t first, int64_t rows) {
  const int64_t columns = tensor.shape[1];
  const int64_t width = std::min(columns, kChunkColumns);
  const int64_t height = std::min(rows, kChunkElements / std::max<int64_t>(width, 1));
  std::vector<std::byte> chunk(static_cast<size_t>(width * height * ElementBytes(tensor.dtype)));
  Gatherer gatherer(1 << 20);
  Sha256 digest;
  for (int64_t row = 0; row < rows; row += height) {
    for (int64_t column = 0; column < columns; column += width) {
      const Shape extent = {std::min(height, rows - row), std::min(width, columns - column)};
      Move move{&tensor,
                (first + row) * tensor.strides[0] + column * tensor.strides[1],
                {extent, tensor.strides, RowMajorStrides(extent), tensor.dtype, tensor.dtype,
                 tensor.big_endian},
                chunk.data()};
      NXDKIT_TRY(gatherer.Run({move}));
      const auto bytes = static_cast<size_t>(extent[0] * extent[1] * ElementBytes(tensor.dtype));
      digest.Update(std::span(chunk).first(bytes));
    }
  }
  return digest.Finish();
}

std::string_view KeySuffix(const Geometry& geometry) {
  return geometry.qkv == QkvStyle::kFused ? ".weight_qkv" : ".weight_k";
}

// Copies that differ may be damaged.
Status ProveKeys(const ShardSet& set, const Geometry& geometry) {
  for (int t = 0; t < geometry.tp; ++t)
    if (const StoredTensor* key = FindOnRank(set, t, ".qkv_proj.", KeySuffix(geometry)))
      if (const CheckedStorage* checked = key->storage->checked())
        NXDKIT_TRY(checked->Prove().on(key->name).rank(t));
  return OkStatus();
}

// Digests of the first stored layer's key slots over all ranks, in slot order.
Result<std::vector<Sha256Bytes>> SlotDigests(const ShardSet& set, const models::ModelConfig& config,
                                             const Geometry& geometry) {
  const bool fused = geometry.qkv == QkvStyle::kFused;
  const int64_t slots = config.kv_heads * geometry.kv_multiplier / geometry.tp;
  const int64_t first_row = fused ? config.heads * config.head_dim / geometry.tp : 0;
  const Shape expected = {first_row + (fused ? 2 : 1) * slots * config.head_dim, config.hidden};
  std::vector<Sha256Bytes> digests;
  std::string name;
  for (int t = 0; t < geometry.tp; ++t) {
    const StoredTensor* key = name.empty() ? FindOnRank(set, t, ".qkv_proj.", KeySuffix(geometry))
                                           : FindOnRank(set, t, name, name);
    if (!key)
      return Corrupt("the key projection is missing")
          .rank(t)
          .on(name)
          .in(set.location.shard_folder);
    name = key->name;
    if (key->shape != expected || ElementBytes(key->dtype) == 0)
      return Corrupt("{} {} found, shape {} expected", Name(key->dtype), ShapeText(key->shape),
                     ShapeText(expected))
          .rank(t)
          .on(name)
          .in(key->storage->path());
    for (int64_t slot = 0; slot < slots; ++slot) {
      NXDKIT_ASSIGN(const Sha256Bytes digest,
                    RowsDigest(*key, first_row + slot * config.head_dim, config.head_dim));
      digests.push_back(digest);
    }
  }
  return digests;
}

Result<models::Placement> PlacementOn(const models::ModelConfig& config, const Geometry& geometry,
                                      Hardware hardware) {
  return models::TrainingPlacement(config.heads, config.kv_heads, geometry.kv_multiplier,
                                   geometry.tp, hardware);
}

// The first query head that a rank pairs with another group's key head, when queries lie as on trn2
// and key heads as on trn1: "rank 1: query head 2 belongs to key head 0 but sits with key head 1".
std::string FirstWrongPair(const Geometry& geometry, const models::ModelConfig& config) {
  const auto query = PlacementOn(config, geometry, Hardware::kTrn2);
  const auto kv = PlacementOn(config, geometry, Hardware::kTrn1);
  if (!query.ok() || !kv.ok()) return "";
  models::Placement mixed = *query;
  for (size_t rank = 0; rank < mixed.size(); ++rank) mixed[rank].kv = (*kv)[rank].kv;
  const Status status = models::CheckPlacement(mixed, config.heads, config.kv_heads);
  return status.ok() ? "" : status.error().ToString();
}

Error NoCopies() {
  return Corrupt(
             "the copies of a key head differ between ranks, tiled as well as adjacent; none of "
             "them can be dropped")
      .hint(
          "a trn2 model trained from scratch with NxD starts like that: its copies are different "
          "heads");
}

Error WrongReplicas(Hardware claimed, ReplicaOrder found, const std::string& origin,
                    const Geometry& geometry, const models::ModelConfig& config) {
  if (found == ReplicaOrder::kNeither) return NoCopies();
  if (claimed == Hardware::kTrn2)
    return Corrupt(
               "{} says trn2, where the {} copies of a key head are on adjacent ranks, but here "
               "they are tiled over the ranks as on trn1; {}",
               origin, geometry.kv_multiplier, FirstWrongPair(geometry, config))
        .hint(
            "NxD's checkpoint_converter.py writes such sets for --hw_backend trn2 with a "
            "kv_size_multiplier above 1; convert the original checkpoint again with nxd-convert "
            "--hw trn2");
  return Corrupt("{} says {}, but the {} copies of a key head are on adjacent ranks, as on trn2",
                 origin, models::HardwareName(claimed), geometry.kv_multiplier);
}

Error AskForHardware(const Geometry& geometry) {
  return BadUsage(
             "key heads are stored {} times, tiled over the ranks: right for trn1, but NxD's "
             "converter also writes that for trn2, with the query heads in another order; the set "
             "does not say which it is",
             geometry.kv_multiplier)
      .hint("say --hw trn1 if the set was trained or converted for trn1");
}

Result<Hardware> Decide(ReplicaOrder replicas, const std::vector<Claims>& claims,
                        std::optional<Hardware> if_unknown, const Geometry& geometry,
                        const models::ModelConfig& config) {
  const bool both = replicas == ReplicaOrder::kBoth;
  const bool tiled = both || replicas == ReplicaOrder::kTiled;
  const bool adjacent = both || replicas == ReplicaOrder::kAdjacent;
  const auto [claimed, origin] = FirstClaim(claims, &Claims::hardware);
  if (claimed) {
    if (*claimed == Hardware::kTrn1 ? tiled : adjacent) return *claimed;
    return WrongReplicas(*claimed, replicas, origin, geometry, config);
  }
  if (replicas == ReplicaOrder::kNeither) return NoCopies();
  if (replicas == ReplicaOrder::kAdjacent) return Hardware::kTrn2;
  if (config.kv_heads == 1) return Hardware::kTrn1;  // one key head: both orders are the same
  if (if_unknown && (*if_unknown == Hardware::kTrn1 || adjacent)) return *if_unknown;
  return AskForHardware(geometry);
}

}  // namespace

Result<ReplicaOrder> CompareReplicas(const ShardSet& set, const models::ModelConfig& config,
                                     const Geometry& geometry) {
  const auto m = static_cast<size_t>(geometry.kv_multiplier);
  if (m == 1) return ReplicaOrder::kNone;
  NXDKIT_ASSIGN(const std::vector<Sha256Bytes> slots, SlotDigests(set, config, geometry));
  // Copies that agree are counted: a damaged one must not hide the order of the others. It is
  // found, with its place, when replicas are compared.
  size_t tiled = 0;
  size_t adjacent = 0;
  for (size_t s = 0; s < slots.size(); ++s) {
    const size_t first_tiled = s % static_cast<size_t>(config.kv_heads);
    const size_t first_adjacent = s / m * m;
    tiled += s != first_tiled && slots[s] == slots[first_tiled];
    adjacent += s != first_adjacent && slots[s] == slots[first_adjacent];
  }
  const size_t copies = slots.size() - static_cast<size_t>(config.kv_heads);
  const bool is_tiled = tiled > copies / 2 && tiled >= adjacent;
  const bool is_adjacent = adjacent > copies / 2 && adjacent >= tiled;
  if (is_tiled && is_adjacent) return ReplicaOrder::kBoth;
  if (is_tiled) return ReplicaOrder::kTiled;
  if (is_adjacent) return ReplicaOrder::kAdjacent;
  NXDKIT_TRY(ProveKeys(set, geometry));
  return ReplicaOrder::kNeither;
}

Status DetectHardware(const ShardSet& set, const models::ModelConfig& config,
                      const std::vector<Claims>& claims, std::optional<Hardware> if_unknown,
                      Detected& detected) {
  Geometry& geometry = detected.geometry;
  if (geometry.kv_multiplier == 1) {  // both orders are the same
    geometry.hardware = FirstClaim(claims, &Claims::hardware).first.value_or(geometry.hardware);
    return OkStatus();
  }
  NXDKIT_ASSIGN(detected.replicas, CompareReplicas(set, config, geometry));
  return Decide(detected.replicas, claims, if_unknown, geometry, config)
      .in(set.location.shard_folder)
      .To(geometry.hardware);
}

}  // namespace nxdkit::nxd
