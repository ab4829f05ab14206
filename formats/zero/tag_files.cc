#include "formats/zero/tag_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::zero {
namespace {

constexpr uint64_t kMaxTagName = 4096;
constexpr std::string_view kModelEnd = "_model_states.pt";
constexpr std::string_view kOptimizerEnd = "_optim_states.pt";

// The parts of a file's name: "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt".
struct FileName {
  bool optimizer = false;
  std::optional<int> dp;
  int mp = 0;
};

// Removes "NAME" and the number that follows from the front.
std::optional<int> TakeNumber(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  std::string_view rest = text.substr(name.size());
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const auto number = ParseNumber<int>(rest.substr(0, end));
  if (number) text = rest.substr(end);
  return number;
}

std::optional<FileName> ParseName(std::string_view name) {
  FileName out;
  for (const std::string_view dtype : {"bf16_", "fp16_"})
    if (name.starts_with(dtype)) name.remove_prefix(dtype.size());
  if (const auto dp = TakeNumber(name, "zero_pp_rank_")) {
    out.dp = dp;
    if (!name.starts_with('_')) return std::nullopt;
    name.remove_prefix(1);
  }
  const auto mp = TakeNumber(name, "mp_rank_");
  if (!mp || (name != kModelEnd && name != kOptimizerEnd)) return std::nullopt;
  out.mp = *mp;
  out.optimizer = name == kOptimizerEnd;
  if (out.optimizer && !out.dp) return std::nullopt;
  return out;
}

Error Refused(std::string_view what, const std::string& name, std::string_view hint) {
  return Unsupported("{} ({})", what, EscapeControl(name)).hint(hint);
}

constexpr char kAskTrainer[] = "have the trainer write a Hugging Face model, or save without it";

Status RefuseName(const std::string& name) {
  const bool model = name.ends_with("model_states.pt");
  if (name.starts_with("expp_rank_") ||
      (name.starts_with("layer_") && name.find("_expert_") != std::string::npos))
    return Refused("experts of DeepSpeed-MoE, which are not read", name, kAskTrainer);
  if (name.starts_with("layer_") && model)
    return Refused("a pipeline of DeepSpeed, whose layers have files of their own", name,
                   kAskTrainer);
  if (name == "offloaded_tensors")
    return Refused("the optimizer was offloaded to files that are not the checkpoint's", name,
                   "save without offload_optimizer to nvme");
  const auto parsed = ParseName(name);
  if (parsed && parsed->mp > 0)
    return Refused("tensor parallel ranks of DeepSpeed, which are not joined here", name,
                   "save it without tensor parallelism, or as a universal checkpoint");
  return OkStatus();
}

Result<bool> IsTag(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  for (const std::string& name : names)
    if (ParseName(name) || !RefuseName(name).ok()) return true;
  return false;
}

Result<std::vector<std::string>> TagsIn(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  std::vector<std::string> tags;
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    NXDKIT_ASSIGN(const bool folder, look.IsFolder(JoinPath(path, name)));
    if (!folder) continue;
    NXDKIT_ASSIGN(const bool tag, IsTag(JoinPath(path, name), look));
    if (tag) tags.push_back(name);
  }
  return tags;
}

// The name in a file such as `latest`; nullopt if there is no such file.
Result<std::optional<std::string>> TagOf(const std::string& path, const char* file,
                                         const Looker& look) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, file));
  if (!there) return std::optional<std::string>();
  NXDKIT_ASSIGN(std::string text, ReadSmallFile(JoinPath(path, file), kMaxTagName));
  text.resize(text.find_last_not_of(" \r\n") + 1);
  return std::optional(std::move(text));
}

Error NoTag(const std::string& path, const std::string& name, const std::vector<std::string>& tags,
            std::string_view said_by) {
  Error error =
      NotFound("{} names the tag {}, which is not there", said_by, EscapeControl(name)).in(path);
  if (tags.empty()) return error;
  return std::move(error).hint(
      fmt::format("there is {}: name one with --tag", FirstNames(tags, 5)));
}

std::string ByNumber(const std::vector<std::string>& tags) {
  std::vector<DatedName> dated;
  for (const std::string& tag : tags) dated.push_back({tag, {}});
  const auto newest = FindNewest(dated);
  return newest ? tags[newest->index] : std::string();
}

}  // namespace

bool IsRankFile(std::string_view name) {
  const auto parsed = ParseName(name);
  return parsed && parsed->dp;
}

Result<bool> HasTags(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool itself, IsTag(path, look));
  if (itself) return true;
  NXDKIT_ASSIGN(const std::vector<std::string> tags, TagsIn(path, look));
  return !tags.empty();
}

Result<FoundTag> FindTag(const std::string& path, std::optional<std::string> asked,
                         const Looker& look) {
  NXDKIT_ASSIGN(const bool itself, IsTag(path, look));
  if (itself && !asked) return FoundTag{path, {}, {}};
  NXDKIT_ASSIGN(const std::vector<std::string> tags, TagsIn(path, look));
  const auto has = [&](const std::string& tag) { return std::ranges::count(tags, tag) > 0; };
  const auto found = [&](const std::string& tag, const char* by) {
    FoundTag out{JoinPath(path, tag), {}, {}};
    if (tags.size() > 1) out.choice = Choice{out.path, tags.size(), by};
    return out;
  };
  if (asked && itself)
    return BadUsage("--tag {} is asked for, and this is one checkpoint itself",
                    EscapeControl(*asked))
        .in(path);
  if (asked) {
    if (has(*asked)) return found(*asked, "option");
    if (has("global_step" + *asked)) return found("global_step" + *asked, "option");
    return NoTag(path, *asked, tags, "--tag");
  }
  for (const char* file : {kLatest, kLatestUniversal}) {
    NXDKIT_ASSIGN(const auto named, TagOf(path, file, look));
    if (!named) continue;
    if (!has(*named)) return NoTag(path, *named, tags, file);
    FoundTag out = found(*named, "tracker");
    const std::string newest = ByNumber(tags);
    if (!newest.empty() && newest != *named)
      out.warnings.push_back(
          fmt::format("{} names {}, and {} is there too: the newer one is passed over",
                      JoinPath(path, file), EscapeControl(*named), EscapeControl(newest)));
    return out;
  }
  if (tags.empty()) return NotFound("there is no checkpoint of DeepSpeed").in(path);
  if (tags.size() == 1) return found(tags.front(), "");
  const std::string newest = ByNumber(tags);
  if (newest.empty())
    return NotFound("there is no {}, and of {} none is the newest by number", kLatest,
                    FirstNames(tags, 5))
        .in(path)
        .hint("name one with --tag");
  return found(newest, "number");
}

Result<TagFiles> ListTag(const std::string& path, const Looker& look) {
  TagFiles out;
  out.path = path;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  for (const std::string& name : names) {
    NXDKIT_TRY(RefuseName(name).in(path));
    const auto parsed = ParseName(name);
    if (!parsed) continue;
    std::map<int, std::string>& files = parsed->optimizer ? out.optimizers : out.models;
    if (!parsed->optimizer) out.per_rank = out.per_rank || parsed->dp.has_value();
    if (!files.emplace(parsed->dp.value_or(0), name).second)
      return Corrupt("rank {} has two files, {} and {}", parsed->dp.value_or(0),
                     EscapeControl(files.at(parsed->dp.value_or(0))), EscapeControl(name))
          .in(path)
          .hint("they are of two saves: remove those of the older one");
  }
  NXDKIT_TRY(look.IsFolder(JoinPath(path, kUniversalFolder)).To(out.universal));
  if (out.models.empty())
    return NotFound("there is no file of the model, such as mp_rank_00_model_states.pt").in(path);
  return out;
}

Status CheckRanks(const std::map<int, std::string>& files, int64_t world, std::string_view what,
                  std::vector<std::string>& warnings) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < world; ++rank)
    if (!files.contains(rank)) missing.push_back(std::to_string(rank));
  if (!missing.empty())
    return NotFound("{} of {} ranks has no {} file: {}", missing.size(), world, what,
                    FirstNames(missing, 8))
        .hint("each node may have kept those of its own ranks: bring them together");
  for (const auto& [rank, name] : files)
    if (rank >= world)
      warnings.push_back(fmt::format("{} is not read: the others are of a run of {}",
                                     EscapeControl(name), Counted(world, "rank")));
  return OkStatus();
}

}  // namespace nxdkit::zero
