#include "formats/fsdp/rank_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::fsdp {
namespace {

constexpr std::string_view kWorld = "_world_size_";
constexpr std::string_view kRank = "_rank_";
constexpr std::string_view kEnd = ".pt";
constexpr uint64_t kMaxConfigBytes = 1 << 20;

// A number in decimal without padding.
std::optional<int> PlainNumber(std::string_view text) {
  const auto number = ParseNumber<int>(text);
  return number && *number >= 0 && std::to_string(*number) == text ? number : std::nullopt;
}

using Worlds = std::map<int, std::array<std::vector<int>, 3>>;

Result<Worlds> ListWorlds(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  Worlds worlds;
  for (const std::string& name : names) {
    const auto file = ParseFileName(name);
    if (!file) continue;
    if (file->rank >= file->world)
      return Corrupt("a file of rank {} of {} ranks", file->rank, file->world)
          .in(JoinPath(path, name));
    worlds[file->world][static_cast<size_t>(file->part)].push_back(file->rank);
  }
  for (auto& [world, parts] : worlds)
    for (std::vector<int>& ranks : parts) std::ranges::sort(ranks);
  return worlds;
}

std::string WorldsText(const Worlds& worlds) {
  std::vector<std::string> texts;
  for (const auto& [world, parts] : worlds)
    texts.push_back(fmt::format("{} ({} of their models)", world, parts[0].size()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Result<std::optional<FsdpConfig>> ReadConfig(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, kFsdpConfigFile));
  if (!there) return std::optional<FsdpConfig>();
  const std::string file = JoinPath(path, kFsdpConfigFile);
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(file, kMaxConfigBytes));
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return Error(json.error()).in(file);
  FsdpConfig config;
  for (const auto& [key, to] :
       {std::pair{"FSDP_version", &config.version}, std::pair{"world_size", &config.world}})
    if (const Json* value = JsonFind(*json, key); value && value->is_number_integer())
      *to = static_cast<int>(std::clamp<int64_t>(value->get<int64_t>(), 0, kMaxWorld));
  return std::optional(config);
}

}  // namespace

std::string FileName(FilePart part, int world, int rank) {
  return fmt::format("{}{}{}{}{}{}", kPartNames[static_cast<size_t>(part)], kWorld, world, kRank,
                     rank, kEnd);
}

std::optional<RankFileName> ParseFileName(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  for (size_t part = 0; part < kPartNames.size(); ++part) {
    const std::string_view start = kPartNames[part];
    if (!name.starts_with(start) || !name.substr(start.size()).starts_with(kWorld)) continue;
    const std::string_view rest = name.substr(start.size() + kWorld.size());
    const size_t at = rest.find(kRank);
    if (at == std::string_view::npos) return std::nullopt;
    const auto world = PlainNumber(rest.substr(0, at));
    const auto rank = PlainNumber(rest.substr(at + kRank.size()));
    if (!world || !rank || *world < 1 || *world > kMaxWorld) return std::nullopt;
    return RankFileName{static_cast<FilePart>(part), *world, *rank};
  }
  return std::nullopt;
}

Result<bool> HasRankFiles(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  return std::ranges::any_of(names, [](const std::string& name) {
    const auto file = ParseFileName(name);
    return file && file->part == FilePart::kModel;
  });
}

Result<RankSet> FindRankSet(const std::string& path, const Looker& look, std::optional<int> world) {
  NXDKIT_ASSIGN(const Worlds worlds, ListWorlds(path, look));
  if (worlds.empty())
    return NotFound("there is no model_world_size_W_rank_R.pt of an FSDP run").in(path);
  if (!world && worlds.size() > 1)
    return Corrupt("the folder has files of several numbers of ranks: {}", WorldsText(worlds))
        .in(path)
        .hint("--ranks-of W takes those of W ranks");
  const auto chosen = world ? worlds.find(*world) : worlds.begin();
  if (chosen == worlds.end())
    return NotFound("there are no files of {} ranks, but of {}", *world, WorldsText(worlds))
        .in(path);
  RankSet set;
  set.path = path;
  set.world = chosen->first;
  set.ranks = chosen->second;
  NXDKIT_ASSIGN(set.config, ReadConfig(path, look));
  if (set.config && set.config->world && *set.config->world != set.world)
    set.warnings.push_back(
        fmt::format("{} says {} ranks, the names of the files say {}: the names are used",
                    JoinPath(path, kFsdpConfigFile), *set.config->world, set.world));
  return set;
}

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    texts.push_back(end == i + 1 ? std::to_string(ranks[i])
                                 : fmt::format("{} to {}", ranks[i], ranks[end - 1]));
    i = end;
    if (texts.size() == 8 && i < ranks.size()) {
      texts.push_back(fmt::format("and {} more", ranks.size() - i));
      break;
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

Status CheckWhole(const RankSet& set, FilePart part) {
  if (set.IsWhole(part)) return OkStatus();
  const std::vector<int>& there = set.of(part);
  std::vector<int> missing;
  for (int rank = 0; rank < set.world; ++rank)
    if (!std::ranges::binary_search(there, rank)) missing.push_back(rank);
  const std::string first = FileName(part, set.world, missing.front());
  if (there.empty())
    return NotFound("there is no {}, nor of another rank: it was not saved", first).in(set.path);
  return NotFound("of {} ranks, {} {} missing: {}; the first file is {}", set.world, missing.size(),
                  missing.size() == 1 ? "is" : "are", RanksText(missing), first)
      .in(set.path)
      .hint(
          "without a shared disk each node keeps the files of its own ranks: copy those of the "
          "others into this folder");
}

}  // namespace nxdkit::fsdp
