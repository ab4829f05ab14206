#include "formats/nxd/shards_in.h"

#include <algorithm>
#include <charconv>

#include "formats/nxd/refuse.h"
#include "formats/nxd/tensor_files.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {

std::optional<RankName> ParseRankName(std::string_view name) {
  RankName ranks;
  bool any = false;
  while (true) {
    int* slot = nullptr;
    for (const auto& [key, field] : {std::pair{"dp_rank_", &ranks.dp},
                                     {"ep_rank_", &ranks.ep},
                                     {"tp_rank_", &ranks.tp},
                                     {"pp_rank_", &ranks.pp}}) {
      if (!name.starts_with(key)) continue;
      slot = field;
      name.remove_prefix(std::string_view(key).size());
      break;
    }
    if (!slot || *slot != -1) return std::nullopt;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *slot);
    if (error != std::errc() || *slot < 0 || *slot > 1'000'000) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    any = true;
    if (!name.starts_with("_")) break;
    name.remove_prefix(1);
  }
  if (!any || ranks.tp < 0) return std::nullopt;
  ranks.suffix = name;
  return ranks;
}

namespace {

// The style of a main file of v2, whose tensors may be in a folder next to it.
Result<SetStyle> StyleOfV2(const std::string& path, const Looker& look) {
  const std::string tensors = path + kTensorFolder;
  NXDKIT_ASSIGN(const bool has_folder, look.IsFolder(tensors));
  if (!has_folder) return SetStyle::kV2;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(tensors));
  NXDKIT_ASSIGN(const bool has_info, look.IsFile(path + ".info.pt"));
  return !names.empty() || has_info ? SetStyle::kV2Xser : SetStyle::kInlineXser;
}

}  // namespace

Result<MaybeShard> ShardOf(const std::string& folder, const std::string& name, const Looker& look) {
  const std::optional<RankName> ranks = ParseRankName(name);
  if (!ranks) return MaybeShard();
  if (ranks->dp > 0) return MaybeShard();  // copies that data parallel ranks wrote
  ShardFile file{JoinPath(folder, name), ranks->tp, std::max(0, ranks->pp), std::max(0, ranks->ep)};
  NXDKIT_ASSIGN(const PathKind kind, look.KindOf(file.path));
  if (ranks->suffix == ".pt" && ranks->pp >= 0 && kind == PathKind::kFile) {
    NXDKIT_ASSIGN(const SetStyle style, StyleOfV2(file.path, look));
    return MaybeShard({file, style});
  }
  if (!ranks->suffix.empty()) return MaybeShard();
  // Only v1 with xser writes a file of this name: without .tensors/ next to it all tensors must be
  // inside.
  if (kind == PathKind::kFile)
    return MaybeShard({file, ranks->pp < 0 ? SetStyle::kV0 : SetStyle::kV1Xser});
  if (kind != PathKind::kFolder) return MaybeShard();
  for (const auto& [inner, style] :
       {std::pair{"checkpoint.pt", SetStyle::kV1}, {"model_optim_rng.ckpt", SetStyle::kNnm}}) {
    const std::string path = JoinPath(file.path, inner);
    NXDKIT_ASSIGN(const bool there, look.IsFile(path));
    if (!there) continue;
    file.path = path;
    return MaybeShard({file, style});
  }
  return MaybeShard();
}

Result<ShardsFound> ShardsIn(const std::string& folder, const Looker& look) {
  ShardsFound found;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(folder));
  NXDKIT_ASSIGN(const bool is_optimizer, IsOptimizerFolder(folder, look));
  if (is_optimizer) return found;
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(MaybeShard shard, ShardOf(folder, name, look));
    if (!shard) continue;
    found.styles.insert(shard->second);
    found.files.push_back(std::move(shard->first));
  }
  return found;
}

Result<std::vector<ShardFile>> OptimizerFilesIn(const std::string& folder, const Looker& look) {
  std::vector<ShardFile> files;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(folder));
  for (const std::string& name : names) {
    const std::optional<RankName> ranks = ParseRankName(name);
    if (!ranks || ranks->suffix != ".pt" || ranks->dp < 0) continue;
    const std::string path = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool is_file, look.IsFile(path));
    if (!is_file) continue;
    files.push_back({path, ranks->tp, std::max(0, ranks->pp), std::max(0, ranks->ep), ranks->dp});
  }
  return files;
}

bool IsV2(SetStyle style) {
  return style == SetStyle::kV2 || style == SetStyle::kV2Xser || style == SetStyle::kInlineXser;
}

Result<SetStyle> OneStyle(const std::set<SetStyle>& styles, const std::string& folder) {
  for (SetStyle style : {SetStyle::kV2Xser, SetStyle::kInlineXser})
    if (styles.contains(style) && std::ranges::all_of(styles, IsV2)) return style;
  if (styles.size() == 1) return *styles.begin();
  return Corrupt("files of two styles are here: {} and {}", SetStyleName(*styles.begin()),
                 SetStyleName(*styles.rbegin()))
      .in(folder);
}

}  // namespace nxdkit::nxd
