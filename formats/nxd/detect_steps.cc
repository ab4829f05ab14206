#include "formats/nxd/detect_steps.h"

#include <algorithm>

#include "formats/models/view.h"
#include "formats/nxd/grid.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {
namespace {

std::string Text(int number) { return fmt::format("is {}", number); }
std::string Text(QkvStyle style) { return fmt::format("is {}", QkvStyleName(style)); }
std::string Text(NameStyle style) { return fmt::format("are {}", NameStyleName(style)); }

template <typename T>
Status Check(const char* what, T proven, std::optional<T> claimed, const Claims& claims) {
  if (!claimed || *claimed == proven) return OkStatus();
  // A record in the set that contradicts the set's shapes is a fault of the set, not of the command
  // line.
  const Errc code = claims.in_set ? Errc::kCorrupt : Errc::kUsage;
  return Error(code, fmt::format("{} {} by the set's names and shapes, but {} by {}", what,
                                 Text(proven), Text(*claimed), claims.origin));
}

}  // namespace

bool HasMegatronNames(const ShardSet& set, const models::Family& family) {
  return models::HasView(family, kMegatronView) && FindOnRank(set, 0, "language_model.", "");
}

const StoredTensor* FindOnRank(const ShardSet& set, int tp, std::string_view part,
                               std::string_view end) {
  for (const Shard& shard : set.shards) {
    if (shard.file.tp != tp) continue;
    for (const StoredTensor& tensor : shard.tensors.tensors)
      if (tensor.name.find(part) != std::string::npos && tensor.name.ends_with(end)) return &tensor;
  }
  return nullptr;
}

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
  return Corrupt("{} rows on tp {} are not a multiple of {} key heads of {} rows{}", local_rows, tp,
                 config.kv_heads, config.head_dim,
                 fused ? fmt::format(" next to {} query heads", config.heads) : "")
      .on(tensor.name)
      .in(tensor.storage->path())
      .hint(fmt::format("is the config the one of this model, and is tp rank {} the last one?",
                        tp - 1));
}

// Missing ranks at the end show only through a record in the set.
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
  NXDKIT_TRY(Check("tp", location.tp, claim.tp, claim));
  NXDKIT_TRY(Check("pp", location.pp, claim.pp, claim));
  return Check("ep", location.ep, claim.ep, claim);
}

Status CheckClaims(const Geometry& geometry, const Claims& claim) {
  NXDKIT_TRY(Check("the kv multiplier", geometry.kv_multiplier, claim.kv_multiplier, claim));
  NXDKIT_TRY(Check("the tensor names", geometry.names, claim.names, claim));
  // Megatron names have only one form of q/k/v.
  if (geometry.names == NameStyle::kMegatron) return OkStatus();
  return Check("the q/k/v style", geometry.qkv, claim.qkv, claim);
}

}  // namespace nxdkit::nxd
