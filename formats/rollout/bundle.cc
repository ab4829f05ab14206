#include "formats/rollout/bundle.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "formats/rollout/adoption.h"
#include "formats/rollout/cpu_plan.h"
#include "formats/rollout/slot_names.h"
#include "formats/rollout/weight_slots.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

constexpr std::string_view kShardSuffix = "_sharded_checkpoint.safetensors";

// "tp12_sharded_checkpoint.safetensors" -> 12. Ranks are written without zero padding.
std::optional<int64_t> RankOf(std::string_view name) {
  if (!name.starts_with("tp") || !name.ends_with(kShardSuffix)) return std::nullopt;
  const std::string_view digits = name.substr(2, name.size() - 2 - kShardSuffix.size());
  const auto rank = ParseNumber<int64_t>(digits);
  const bool good = rank && *rank >= 0 && *rank <= 1'000'000 && std::to_string(*rank) == digits;
  return good ? rank : std::nullopt;
}

// `weights`: a folder, or a path that Resolve maps to one.
Result<std::map<int64_t, std::string>> RanksIn(const std::string& weights) {
  std::map<int64_t, std::string> ranks;
  NXDKIT_ASSIGN(const std::string folder, Resolve(weights));
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(folder));
  for (const std::string& name : names)
    if (const auto rank = RankOf(name)) ranks.emplace(*rank, JoinPath(folder, name));
  return ranks;
}

// In optimum-neuron's lookup order; a bare folder of shards comes last.
constexpr const char* kPlaces[] = {"checkpoint/weights", "weights"};

// Whether a place may hold shards: it exists, or something that leads to it or remains of it.
Result<bool> MayHoldWeights(const std::string& place, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(ParentPath(place)));
  return std::ranges::any_of(names, [](std::string_view name) {
    return name.starts_with("weights") || name.starts_with(".weights");
  });
}

Result<std::vector<std::string>> FindWeights(const std::string& folder, const Looker& look) {
  std::vector<std::string> found;
  for (const char* place : kPlaces) {
    std::string path = JoinPath(folder, place);
    NXDKIT_ASSIGN(const bool may, MayHoldWeights(path, look));
    if (!may) continue;
    NXDKIT_ASSIGN(const auto ranks, RanksIn(path));
    if (!ranks.empty()) found.push_back(std::move(path));
  }
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(folder));
  if (std::ranges::any_of(names, [](const std::string& name) { return RankOf(name).has_value(); }))
    found.push_back(folder);
  return found;
}

// checkpoint/<name>/weights of models with several blobs; "" when there is none.
Result<std::string> FindNamedWeights(const std::string& folder, const Looker& look) {
  const std::string checkpoint = JoinPath(folder, "checkpoint");
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(checkpoint));
  for (const std::string& name : names) {
    std::string path = JoinPath(JoinPath(checkpoint, name), "weights");
    NXDKIT_ASSIGN(const auto ranks, RanksIn(path));
    if (!ranks.empty()) return path;
  }
  return std::string();
}

// The newest whole slot of a bundle when no link leads to one: it was removed, or lost in copying.
Result<std::string> FindLostSlot(const std::string& folder) {
  for (const char* place : kPlaces) {
    NXDKIT_ASSIGN(const std::optional<std::string> newest, NewestWhole(JoinPath(folder, place)));
    if (newest) return *newest;
  }
  return std::string();
}

Status ChooseWeights(Bundle& bundle, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> found, FindWeights(bundle.folder, look));
  if (found.empty()) {
    NXDKIT_ASSIGN(const std::string named, FindNamedWeights(bundle.folder, look));
    if (named.empty()) return FindLostSlot(bundle.folder).To(bundle.lost_slot);
    return Unsupported(
               "shards of one of several sub-models (a vision language model): no family with such "
               "a layout is known")
        .in(named);
  }
  bundle.weights_link = found.front();
  if (found.size() > 1) bundle.choice = Choice{found.front(), found.size(), "order"};
  for (size_t i = 1; i < found.size(); ++i)
    bundle.warnings.push_back(fmt::format("{} holds shards too; they are ignored", found[i]));
  NXDKIT_ASSIGN(PinnedWeights pinned, PinWeights(bundle.weights_link));
  bundle.weights_folder = std::move(pinned.folder);
  bundle.half_done = pinned.half_done;
  bundle.lock = std::move(pinned.lock);
  return OkStatus();
}

bool IsBlobName(std::string_view name) {
  return name == "model.pt" || (name.starts_with("model_") && name.ends_with(".pt"));
}

Status LoadConfig(Bundle& bundle, const Looker& look) {
  const std::string path = JoinPath(bundle.folder, "neuron_config.json");
  NXDKIT_ASSIGN(const bool there, look.IsFile(path));
  if (!there) return OkStatus();
  NXDKIT_ASSIGN(bundle.config_text, ReadSmallFile(path, models::kMaxConfigBytes));
  return ParseNeuronConfig(bundle.config_text, path).To(bundle.config);
}

Status LoadShards(Bundle& bundle, const OpenTensorFile& open) {
  NXDKIT_ASSIGN(const auto ranks, RanksIn(bundle.weights_folder));
  if (ranks.empty())
    return Corrupt("no rank shards, expected {}", ShardFileName(0)).in(bundle.weights_folder);
  bundle.first_rank = ranks.begin()->first;
  int64_t expected = bundle.first_rank;
  for (const auto& [rank, path] : ranks) {
    if (rank != expected)
      return Corrupt("incomplete bundle: {} is missing, ranks {} to {} found around it",
                     ShardFileName(static_cast<int>(expected)), expected - 1, rank)
          .in(bundle.weights_folder);
    NXDKIT_ASSIGN(TensorFile file, open(path).in(path).rank(rank));
    bundle.shards.push_back(std::move(file));
    ++expected;
  }
  return OkStatus();
}

Status CheckRanks(Bundle& bundle) {
  const int64_t found = static_cast<int64_t>(bundle.shards.size());
  if (!bundle.config && bundle.first_rank != 0)
    return Corrupt("incomplete bundle: {} is missing, the first one found is of rank {}",
                   ShardFileName(0), bundle.first_rank)
        .in(bundle.weights_folder);
  if (!bundle.config) return OkStatus();
  if (bundle.shards.empty()) {
    if (bundle.config->flavor == Flavor::kNxdi && bundle.config->sharded_checkpoint)
      return Corrupt("save_sharded_checkpoint is true, but there is no weights/ folder with shards")
          .in(bundle.folder);
    return OkStatus();
  }
  if (found != bundle.config->local_ranks || bundle.first_rank != bundle.config->start_rank)
    return Corrupt("ranks {} to {} found, neuron_config.json says {} to {}", bundle.first_rank,
                   bundle.first_rank + found - 1, bundle.config->start_rank,
                   bundle.config->start_rank + bundle.config->local_ranks - 1)
        .in(bundle.weights_folder);
  return OkStatus();
}

Status Open(Bundle& bundle, const OpenTensorFile& open, const std::string& weights,
            const Looker& look) {
  const std::string& path = bundle.folder;
  NXDKIT_TRY(LoadConfig(bundle, look));
  bundle.weights_link = bundle.weights_folder = weights;
  if (weights.empty()) NXDKIT_TRY(ChooseWeights(bundle, look));
  if (!bundle.config && bundle.weights_folder.empty())
    return NotFound("no rollout bundle: neither neuron_config.json nor rank shards").in(path);
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  for (const std::string& name : names)
    if (IsBlobName(name)) bundle.blobs.push_back(name);
  NXDKIT_ASSIGN(bundle.has_cpu_plan, look.HasFile(path, kCpuPlanFile));
  if (!bundle.weights_folder.empty()) {
    NXDKIT_TRY(LoadShards(bundle, open));
    NXDKIT_ASSIGN(bundle.version, ReadVersion(bundle.weights_folder));
  }
  NXDKIT_TRY(CheckRanks(bundle));
  for (const TensorFile& shard : bundle.shards)
    if (!shard.metadata.empty())
      bundle.warnings.push_back(
          fmt::format("{} has __metadata__; rank shards have none", shard.path));
  return OkStatus();
}

// Whether the opened folder has lost its name, so that some shards may come from another. A
// retired slot of a file system without locks is removed after a while; a plain folder becomes a
// slot with the first refresh.
bool IsGone(const Bundle& bundle) {
  return bundle.lock && !bundle.lock->IsAt(bundle.weights_folder);
}

// If no shards were found: whether there is a dangling link. An NFS client may see an old link, to
// a slot that has been removed since. Only decides whether to look again.
bool LeadsNowhere(const Bundle& bundle) {
  return bundle.weights_folder.empty() && std::ranges::any_of(kPlaces, [&](const char* place) {
           const std::string path = JoinPath(bundle.folder, place);
           const Result<bool> link = IsLink(path);
           return link.ok() && *link && KindForHint(path) != PathKind::kFolder;
         });
}

}  // namespace

std::string WeightsFolder(Flavor flavor) {
  return flavor == Flavor::kOptimum ? "checkpoint/weights" : "weights";
}

Result<bool> LooksLikeBundle(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool has_config, look.HasFile(path, "neuron_config.json"));
  if (has_config) return true;
  NXDKIT_ASSIGN(const std::vector<std::string> weights, FindWeights(path, look));
  return !weights.empty();
}

Result<Bundle> OpenBundle(const std::string& path, const OpenTensorFile& open,
                          const std::string& weights, const Looker& look) {
  NXDKIT_ASSIGN(const PathKind kind, look.KindOf(path));
  if (kind == PathKind::kMissing) return NotFound("no such file or folder").in(path);
  if (kind != PathKind::kFolder)
    return Unsupported("a rollout bundle is a folder; this is a file").in(path);
  constexpr int kTries = 6;  // 3 seconds: the delay of an NFS client
  for (int i = 1;; ++i) {
    Bundle bundle;
    bundle.folder = path;
    Status opened = Open(bundle, open, weights, i == 1 ? look : Looker());
    const bool gone = IsGone(bundle);
    const bool again = gone || (LeadsNowhere(bundle) && i < kTries);
    if (!again && opened.ok()) return bundle;
    if (!again) return std::move(opened).error();
    if (i == kTries)
      return Error(Errc::kIo, "its weights are replaced again and again").in(bundle.weights_link);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 << i));
  }
}

Result<std::string> RepairBundle(const std::string& path, bool sync) {
  for (const char* place : kPlaces) {
    NXDKIT_ASSIGN(std::string done, Repair(JoinPath(path, place), sync));
    if (!done.empty()) return done;
  }
  return std::string();
}

}  // namespace nxdkit::rollout
