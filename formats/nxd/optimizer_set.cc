#include "formats/nxd/optimizer_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/nxd/grid.h"
#include "formats/nxd/refuse.h"
#include "formats/nxd/shards_in.h"
#include "formats/nxd/tensor_files.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

using torch::PickleValue;

constexpr std::string_view kFull = "full_";
constexpr std::string_view kLeaveOut = "--no-optimizer leaves the optimizer's state out";

// The main files in `names`; `expert`: an expert parallel one, which ends the search.
struct Found {
  std::vector<ShardFile> sharded;
  std::vector<ShardFile> full;
  std::string expert;
};

Found FilesAmong(const std::vector<std::string>& names, const std::string& folder) {
  Found found;
  for (const std::string& name : names) {
    const bool full = name.starts_with(kFull);
    const auto ranks = ParseRankName(std::string_view(name).substr(full ? kFull.size() : 0));
    if (!ranks || ranks->pp < 0 || ranks->suffix != ".pt") continue;
    if (ranks->ep >= 0) found.expert = name;
    ShardFile file{JoinPath(folder, name), ranks->tp, ranks->pp, 0, std::max(0, ranks->dp)};
    (full ? found.full : found.sharded).push_back(std::move(file));
  }
  return found;
}

// The legacy form is stored next to the shards, not in optim/.
Status RefuseLegacy(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  const auto legacy = std::ranges::find_if(names, IsLegacyOptimizer);
  if (legacy == names.end()) return OkStatus();
  return Unsupported(
             "a legacy ZeRO-1 optimizer ({}) is next to the model; only the forms in optim/ can be "
             "resharded",
             *legacy)
      .in(folder)
      .hint(kLeaveOut);
}

// The meaning of a key in the file's dict. Sources: torch_xla's ZeroRedundancyOptimizer, NxD 0.18
// NeuronZero1Optimizer and NeuronEPZero1Optimizer.
struct KeyRow {
  std::string_view key;
  const char* refused;  // nullptr: accepted
};
constexpr KeyRow kKeys[] = {
    {"state", nullptr},
    {"param_groups", nullptr},
    {"base_state", nullptr},
    {"shape_info", nullptr},
    {kMasterWeights, nullptr},
    {"ep_param_id_offset", "the state of an expert parallel optimizer"},
    {"ep_param_group_offset", "the state of an expert parallel optimizer"},
    {"ep_base_state_offset", "the state of an expert parallel optimizer"},
    {"ep_shape_info_offset", "the state of an expert parallel optimizer"},
    {"dp_rank", "a file of the legacy form, which has no pipeline ranks"},
    {"tp_rank", "a file of the legacy form, which has no pipeline ranks"},
};

Status CheckKey(const std::string& key) {
  for (const KeyRow& row : kKeys) {
    if (row.key != key) continue;
    if (!row.refused) return OkStatus();
    return Unsupported("the key {} belongs to {}", key, row.refused);
  }
  return Unsupported("the key {} is not known, so its information about the layout could be lost",
                     EscapeControl(key));
}

Error Mistyped(std::string_view key, std::string_view expected) {
  return Corrupt("{} is not {}", key, expected);
}

// Reads one file of the set.
struct OptimizerReader {
  const torch::Archive& archive;
  TensorFiles& files;
  const PickleValue& root = archive.root;
  OptimizerShard out = {};

  Result<OptimizerShard> Read(const ShardFile& file) {
    out.file = file;
    out.file_bytes = archive.file_bytes;
    out.format = archive.format;
    NXDKIT_TRY(ReadKeys());
    NXDKIT_TRY(ReadGroups());
    const bool sharded = out.Has("base_state");
    NXDKIT_TRY(ForEachPid(sharded ? "base_state" : "state", &OptimizerReader::ReadEntries));
    if (sharded && !root.Find("state")->dict()->empty())
      return Unsupported("the sharded optimizer's own state is not empty; its meaning is not known")
          .member("state");
    NXDKIT_TRY(ForEachPid("shape_info", &OptimizerReader::ReadShape));
    NXDKIT_TRY(ForEachPid(kMasterWeights, &OptimizerReader::ReadMaster));
    return std::move(out);
  }

  Status ReadKeys() {
    if (!root.dict()) return Corrupt("the file does not hold a dict");
    for (const auto& [key, value] : *root.dict()) {
      if (!key.string()) return Mistyped("a key of the file's dict", "a string");
      NXDKIT_TRY(CheckKey(*key.string()));
      if (out.Has(*key.string())) return Mistyped(*key.string(), "there once");
      out.keys.push_back(*key.string());
    }
    for (const char* needed : {"state", "param_groups"})
      if (!out.Has(needed)) return Corrupt("no optimizer's state: the key {} is missing", needed);
    if (!root.Find("state")->dict()) return Mistyped("state", "a dict");
    return OkStatus();
  }

  Status ReadGroups() {
    const torch::PickleList* groups = root.Find("param_groups")->list();
    if (!groups) return Mistyped("param_groups", "a list");
    int64_t next = 0;
    for (const PickleValue& group : *groups) {
      const PickleValue* params = group.Find("params");
      if (!params || !params->list()) return Mistyped("param_groups[].params", "a list");
      for (const PickleValue& pid : *params->list()) {
        if (!pid.integer() || *pid.integer() != next)
          return Unsupported("parameters are not numbered through from 0: found {}, expected {}",
                             pid.integer() ? fmt::format("{}", *pid.integer()) : "no number", next)
              .member("param_groups");
        ++next;
      }
      out.groups.push_back(*group.dict());
      for (auto& [key, value] : out.groups.back()) NXDKIT_TRY(AsNumber(key, value));
      out.group_sizes.push_back(static_cast<int64_t>(params->list()->size()));
    }
    return OkStatus();
  }

  // torch accepts a tensor as the learning rate; its number is what counts.
  Status AsNumber(const PickleValue& key, PickleValue& value) {
    NXDKIT_ASSIGN(const std::optional<StoredTensor> tensor, TensorOf(value));
    if (!tensor) return OkStatus();
    const std::string name = key.string() ? EscapeControl(*key.string()) : "an option";
    if (!tensor->shape.empty())
      return Unsupported("{} is a tensor of shape {}, expected a number", name,
                         ShapeText(tensor->shape))
          .member("param_groups");
    NXDKIT_ASSIGN(const double number, ReadScalar(*tensor).member("param_groups"));
    value = {number};
    out.tensor_options.insert(name);
    return OkStatus();
  }

  // Reads the value of each pid of the dict under `key`, if there is one.
  Status ForEachPid(const char* key,
                    Status (OptimizerReader::*read)(ParamState&, const PickleValue&)) {
    const PickleValue* table = root.Find(key);
    if (!table) return OkStatus();
    if (!table->dict()) return Mistyped(key, "a dict");
    for (const auto& [pid, value] : *table->dict()) {
      if (pid.string())
        return Unsupported(
                   "parameters have names ({}), as in a torch distributed checkpoint, expected "
                   "numbers",
                   EscapeControl(*pid.string()))
            .member(key);
      if (!pid.integer()) return Mistyped(fmt::format("a key of {}", key), "a number");
      if (*pid.integer() < 0 || *pid.integer() >= out.param_count())
        return Corrupt("parameter {} is not in param_groups, which have {} parameters",
                       *pid.integer(), out.param_count())
            .member(key);
      NXDKIT_TRY((this->*read)(out.state[*pid.integer()], value)
                     .member(fmt::format("{}[{}]", key, *pid.integer())));
    }
    return OkStatus();
  }

  Status ReadEntries(ParamState& state, const PickleValue& value) {
    if (!value.dict()) return Mistyped("the parameter's state", "a dict");
    state.entries.emplace();
    for (const auto& [key, item] : *value.dict()) {
      if (!key.string()) return Mistyped("a key of the parameter's state", "a string");
      const std::string& name = *key.string();
      const auto same = [&](const StateEntry& other) { return other.name == name; };
      if (name == kMasterWeights || std::ranges::any_of(*state.entries, same))
        return Mistyped(name, "there once");
      StateEntry entry{name, std::nullopt, item};
      NXDKIT_ASSIGN(entry.tensor, TensorOf(item));
      state.entries->push_back(std::move(entry));
    }
    return OkStatus();
  }

  Status ReadShape(ParamState& state, const PickleValue& value) {
    if (const auto* size = std::get_if<torch::TorchSize>(&value.value)) {
      state.shape = size->dims;
      out.shapes_are_sizes = true;
      return OkStatus();
    }
    if (!value.list()) return Mistyped("the shape", "a list");
    state.shape.emplace();
    for (const PickleValue& extent : *value.list()) {
      if (!extent.integer() || *extent.integer() < 0)
        return Mistyped("the shape", "a list of numbers");
      state.shape->push_back(*extent.integer());
    }
    return OkStatus();
  }

  Status ReadMaster(ParamState& state, const PickleValue& value) {
    NXDKIT_ASSIGN(state.master, TensorOf(value));
    return state.master ? OkStatus() : Mistyped("the master weight", "a tensor");
  }

  // nullopt when the value is not a tensor.
  Result<std::optional<StoredTensor>> TensorOf(const PickleValue& value) {
    if (const torch::TensorIndex* index = value.tensor())
      return std::optional(files.Inside(archive, index->index));
    if (!value.reference()) return std::optional<StoredTensor>();
    const std::string path = TensorFiles::PathOf(archive.path, value.reference()->tid);
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    if (!there) return TensorFiles::Missing(archive.path, path);
    NXDKIT_ASSIGN(StoredTensor tensor, files.Open(path, out.file_bytes));
    return std::optional(std::move(tensor));
  }
};

Result<OptimizerShard> ReadShard(const ShardFile& file, TensorFiles& files) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file.path));
  return OptimizerReader{archive, files}.Read(file);
}

Result<OptimizerStyle> StyleOf(const OptimizerLocation& location, const OptimizerShard& shard) {
  const bool zero = shard.Has("base_state");
  if (location.merged && zero) return OptimizerStyle::kMerged;
  if (zero) return OptimizerStyle::kZero1;
  if (!location.merged && location.dp == 1) return OptimizerStyle::kReplicated;
  return Corrupt("{}, but the file holds no base_state, as a sharded optimizer does",
                 location.merged ? std::string("named as a merged optimizer")
                                 : fmt::format("files of {} data parallel ranks", location.dp))
      .in(shard.file.path);
}

}  // namespace

std::string_view OptimizerStyleName(OptimizerStyle style) {
  constexpr std::string_view kNames[] = {"zero1", "merged", "replicated", "dcp"};
  return kNames[static_cast<size_t>(style)];
}

bool IsOptimizerPath(std::string_view path) {
  return path.starts_with("optim/") || path.find("/optim/") != std::string_view::npos;
}

std::string OptimizerFileName(OptimizerStyle style, int dp_rank, int tp_rank, int pp_rank) {
  if (style == OptimizerStyle::kMerged)
    return fmt::format("optim/full_tp_rank_{:02d}_pp_rank_{:02d}.pt", tp_rank, pp_rank);
  return fmt::format("optim/dp_rank_{:02d}_tp_rank_{:02d}_pp_rank_{:02d}.pt", dp_rank, tp_rank,
                     pp_rank);
}

Result<std::optional<OptimizerLocation>> LocateOptimizer(const std::string& tag_folder) {
  NXDKIT_TRY(RefuseLegacy(tag_folder));
  OptimizerLocation out;
  out.folder = JoinPath(tag_folder, "optim");
  NXDKIT_ASSIGN(const PathKind kind, KindOf(out.folder));
  if (kind == PathKind::kMissing) return std::optional<OptimizerLocation>();
  if (kind != PathKind::kFolder)
    return Corrupt("the optimizer's state is a folder; this is not one").in(out.folder);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(out.folder));
  if (names.empty()) return std::optional<OptimizerLocation>();
  Found found = FilesAmong(names, out.folder);
  if (!found.expert.empty())
    return Unsupported(
               "the optimizer is expert parallel ({}), whose parameter numbers are shifted by "
               "expert rank",
               found.expert)
        .in(out.folder)
        .hint(kLeaveOut);
  if (!found.sharded.empty() && !found.full.empty())
    return Corrupt("a merged optimizer and a sharded one are here: {} and {}",
                   BaseName(found.full.front().path), BaseName(found.sharded.front().path))
        .in(out.folder)
        .hint("move away the one that is not to be used");
  out.merged = !found.full.empty();
  out.files = std::move(out.merged ? found.full : found.sharded);
  if (out.files.empty()) {
    if (const Status refused = RefuseByName(out.folder); !refused.ok())
      return Error(refused.error().code(), refused.error().message())
          .in(out.folder)
          .hint(kLeaveOut);
    return Unsupported(
               "no optimizer file known, such as dp_rank_00_tp_rank_00_pp_rank_00.pt; found {}",
               names.front())
        .in(out.folder);
  }
  NXDKIT_ASSIGN(const GridSizes sizes, OrderGrid(out.files, out.folder));
  out.tp = sizes.tp;
  out.pp = sizes.pp;
  out.dp = sizes.dp;
  return std::optional<OptimizerLocation>(std::move(out));
}

bool OptimizerShard::Has(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

int64_t OptimizerShard::param_count() const {
  int64_t count = 0;
  for (const int64_t size : group_sizes) count += size;
  return count;
}

int64_t ZeroRows(int64_t rows, int64_t dp) { return rows / dp + (rows % dp != 0 ? 1 : 0); }

Result<OptimizerSet> ReadOptimizer(OptimizerLocation location) {
  OptimizerSet set;
  TensorFiles files(location.files.size());
  for (const ShardFile& file : location.files) {
    NXDKIT_ASSIGN(OptimizerShard shard, ReadShard(file, files).in(file.path).rank(file.tp));
    set.shards.push_back(std::move(shard));
    const std::vector<std::string>& keys = set.shards.front().keys;
    if (set.shards.back().keys != keys)
      return Corrupt("the file has the keys {}, {} has {}", fmt::join(set.shards.back().keys, ", "),
                     BaseName(set.shards.front().file.path), fmt::join(keys, ", "))
          .in(file.path);
  }
  NXDKIT_ASSIGN(set.style, StyleOf(location, set.shards.front()));
  set.location = std::move(location);
  return set;
}

}  // namespace nxdkit::nxd
