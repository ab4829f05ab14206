#include "formats/nxd/shards_in.h"

#include <algorithm>
#include <array>
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

bool HasEntries(const std::string& folder) {
  const auto names = ListFolder(folder);
  return names.ok() && !names->empty();
}

}  // namespace

std::optional<std::pair<ShardFile, SetStyle>> ShardOf(const std::string& folder,
                                                      const std::string& name) {
  const std::optional<RankName> ranks = ParseRankName(name);
  if (!ranks) return std::nullopt;
  if (ranks->dp > 0) return std::nullopt;  // copies that data parallel ranks wrote
  ShardFile file{JoinPath(folder, name), ranks->tp, std::max(0, ranks->pp), std::max(0, ranks->ep)};
  const PathKind kind = KindOf(file.path);
  if (ranks->suffix == ".pt" && ranks->pp >= 0 && kind == PathKind::kFile) {
    const std::string tensors = file.path + kTensorFolder;
    if (KindOf(tensors) != PathKind::kFolder) return std::pair{file, SetStyle::kV2};
    const bool by_reference =
        HasEntries(tensors) || KindOf(file.path + ".info.pt") == PathKind::kFile;
    return std::pair{file, by_reference ? SetStyle::kV2Xser : SetStyle::kInlineXser};
  }
  if (!ranks->suffix.empty()) return std::nullopt;
  // Only v1 with xser writes a file of this name: without .tensors/ beside it all tensors must be
  // inside.
  if (kind == PathKind::kFile)
    return std::pair{file, ranks->pp < 0 ? SetStyle::kV0 : SetStyle::kV1Xser};
  if (kind != PathKind::kFolder) return std::nullopt;
  for (const auto& [inner, style] :
       {std::pair{"checkpoint.pt", SetStyle::kV1}, {"model_optim_rng.ckpt", SetStyle::kNnm}}) {
    const std::string path = JoinPath(file.path, inner);
    if (KindOf(path) != PathKind::kFile) continue;
    file.path = path;
    return std::pair{file, style};
  }
  return std::nullopt;
}

ShardsFound ShardsIn(const std::string& folder) {
  ShardsFound found;
  const auto names = ListFolder(folder);
  if (!names.ok() || IsOptimizerFolder(folder)) return found;
  for (const std::string& name : *names) {
    auto shard = ShardOf(folder, name);
    if (!shard) continue;
    found.styles.insert(shard->second);
    found.files.push_back(std::move(shard->first));
  }
  return found;
}

std::vector<ShardFile> OptimizerFilesIn(const std::string& folder) {
  std::vector<ShardFile> files;
  const auto names = ListFolder(folder);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    const std::optional<RankName> ranks = ParseRankName(name);
    const std::string path = JoinPath(folder, name);
    if (!ranks || ranks->suffix != ".pt" || ranks->dp < 0 || KindOf(path) != PathKind::kFile)
      continue;
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
