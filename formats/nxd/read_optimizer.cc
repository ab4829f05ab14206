#include <fmt/format.h>

#include <algorithm>

#include "formats/nxd/optimizer_set.h"
#include "formats/nxd/tensor_files.h"
#include "formats/torch/archive.h"
#include "lib/base/checked.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

using torch::PickleDict;
using torch::PickleValue;

// What a key of the file's dict means for us. Sources: torch_xla's ZeroRedundancyOptimizer, NxD
// 0.18 NeuronZero1Optimizer and NeuronEPZero1Optimizer.
struct KeyRow {
  std::string_view key;
  const char* refused;  // nullptr: read
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
    return Error(Errc::kUnsupported, fmt::format("the key {} belongs to {}", key, row.refused));
  }
  return Error(Errc::kUnsupported,
               fmt::format("the key {} is not known, so what it says of this layout could be lost",
                           EscapeControl(key)));
}

Error Mistyped(std::string_view key, std::string_view expected) {
  return Error(Errc::kCorrupt, fmt::format("{} is not {}", key, expected));
}

class Reader {
 public:
  explicit Reader(size_t files) : files_(files) {}

  Result<OptimizerShard> ReadShard(const ShardFile& file) {
    NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file.path));
    OptimizerShard out;
    out.file = file;
    out.file_bytes = archive.file_bytes;
    out.format = archive.format;
    NXDKIT_TRY(ReadKeys(archive.root, out));
    NXDKIT_TRY(ReadGroups(archive.root, out));
    NXDKIT_TRY(ReadStates(archive, out.Has("base_state") ? "base_state" : "state", out));
    if (out.Has("base_state") && out.Has("state") && !archive.root.Find("state")->dict()->empty())
      return Error(Errc::kUnsupported,
                   "the sharded optimizer's own state is not empty; what it means is not known")
          .member("state");
    NXDKIT_TRY(ReadShapes(archive.root, out));
    NXDKIT_TRY(ReadMasterWeights(archive, out));
    return out;
  }

 private:
  Status ReadKeys(const PickleValue& root, OptimizerShard& out) const {
    if (!root.dict()) return Error(Errc::kCorrupt, "the file holds no dict");
    for (const auto& [key, value] : *root.dict()) {
      if (!key.string()) return Mistyped("a key of the file's dict", "a string");
      NXDKIT_TRY(CheckKey(*key.string()));
      if (out.Has(*key.string())) return Mistyped(*key.string(), "there once");
      out.keys.push_back(*key.string());
    }
    for (const char* needed : {"state", "param_groups"})
      if (!out.Has(needed))
        return Error(Errc::kCorrupt,
                     fmt::format("no optimizer's state: the key {} is missing", needed));
    if (!root.Find("state")->dict()) return Mistyped("state", "a dict");
    return OkStatus();
  }

  Status ReadGroups(const PickleValue& root, OptimizerShard& out) const {
    const torch::PickleList* groups = root.Find("param_groups")->list();
    if (!groups) return Mistyped("param_groups", "a list");
    int64_t next = 0;
    for (const PickleValue& group : *groups) {
      const PickleValue* params = group.Find("params");
      if (!params || !params->list()) return Mistyped("param_groups[].params", "a list");
      for (const PickleValue& pid : *params->list()) {
        if (!pid.integer() || *pid.integer() != next)
          return Error(Errc::kUnsupported,
                       fmt::format("parameters are not numbered through from 0: found {}, "
                                   "expected {}",
                                   pid.integer() ? fmt::format("{}", *pid.integer()) : "no number",
                                   next))
              .member("param_groups");
        ++next;
      }
      out.groups.push_back(*group.dict());
      out.group_sizes.push_back(static_cast<int64_t>(params->list()->size()));
    }
    return OkStatus();
  }

  // Calls `take(state, value)` for each pid of the dict under `key`.
  template <typename Take>
  Status ForEachPid(const PickleValue& root, const char* key, OptimizerShard& out, Take take) {
    const PickleValue* table = root.Find(key);
    if (!table) return OkStatus();
    if (!table->dict()) return Mistyped(key, "a dict");
    for (const auto& [pid, value] : *table->dict()) {
      if (pid.string())
        return Error(Errc::kUnsupported,
                     fmt::format("parameters have names ({}), as in a torch distributed "
                                 "checkpoint, expected numbers",
                                 EscapeControl(*pid.string())))
            .member(key);
      if (!pid.integer()) return Mistyped(fmt::format("a key of {}", key), "a number");
      if (*pid.integer() < 0 || *pid.integer() >= out.param_count())
        return Error(Errc::kCorrupt, fmt::format("parameter {} is not in param_groups, which have "
                                                 "{} parameters",
                                                 *pid.integer(), out.param_count()))
            .member(key);
      Status taken = take(out.state[*pid.integer()], value);
      if (!taken.ok())
        return std::move(taken).error().member(fmt::format("{}[{}]", key, *pid.integer()));
    }
    return OkStatus();
  }

  Status ReadStates(const torch::Archive& archive, const char* key, OptimizerShard& out) {
    return ForEachPid(archive.root, key, out, [&](ParamState& state, const PickleValue& value) {
      return ReadEntries(archive, value, out, state);
    });
  }

  Status ReadEntries(const torch::Archive& archive, const PickleValue& value, OptimizerShard& out,
                     ParamState& state) {
    if (!value.dict()) return Mistyped("the parameter's state", "a dict");
    state.entries.emplace();
    for (const auto& [name, item] : *value.dict()) {
      if (!name.string()) return Mistyped("a key of the parameter's state", "a string");
      const auto same = [&](const StateEntry& other) { return other.name == *name.string(); };
      if (*name.string() == kMasterWeights || std::ranges::any_of(*state.entries, same))
        return Mistyped(*name.string(), "there once");
      StateEntry entry{*name.string(), std::nullopt, item};
      NXDKIT_ASSIGN(entry.tensor, TensorOf(archive, item, out));
      state.entries->push_back(std::move(entry));
    }
    return OkStatus();
  }

  Status ReadShapes(const PickleValue& root, OptimizerShard& out) {
    return ForEachPid(root, "shape_info", out, [&](ParamState& state, const PickleValue& value) {
      if (const auto* size = std::get_if<torch::TorchSize>(&value.value)) {
        state.shape = size->dims;
        out.shapes_are_sizes = true;
        return OkStatus();
      }
      if (!value.list()) return Status(Mistyped("the shape", "a list"));
      state.shape.emplace();
      for (const PickleValue& extent : *value.list()) {
        if (!extent.integer() || *extent.integer() < 0)
          return Status(Mistyped("the shape", "a list of numbers"));
        state.shape->push_back(*extent.integer());
      }
      return OkStatus();
    });
  }

  Status ReadMasterWeights(const torch::Archive& archive, OptimizerShard& out) {
    return ForEachPid(archive.root, kMasterWeights, out,
                      [&](ParamState& state, const PickleValue& value) -> Status {
                        NXDKIT_ASSIGN(state.master, TensorOf(archive, value, out));
                        if (!state.master) return Mistyped("the master weight", "a tensor");
                        return OkStatus();
                      });
  }

  // nullopt when the value is no tensor.
  Result<std::optional<StoredTensor>> TensorOf(const torch::Archive& archive,
                                               const PickleValue& value, OptimizerShard& out) {
    if (const torch::TensorIndex* index = value.tensor())
      return std::optional(files_.Inside(archive, index->index));
    if (!value.reference()) return std::optional<StoredTensor>();
    const std::string path = TensorFiles::PathOf(archive.path, value.reference()->tid);
    if (KindOf(path) != PathKind::kFile) return TensorFiles::Missing(archive.path, path);
    NXDKIT_ASSIGN(StoredTensor tensor, files_.Open(path, out.file_bytes));
    return std::optional(std::move(tensor));
  }

  TensorFiles files_;
};

Result<OptimizerStyle> StyleOf(const OptimizerLocation& location, const OptimizerShard& shard) {
  const bool zero = shard.Has("base_state");
  if (location.merged && zero) return OptimizerStyle::kMerged;
  if (zero) return OptimizerStyle::kZero1;
  if (!location.merged && location.dp == 1) return OptimizerStyle::kReplicated;
  return Error(Errc::kCorrupt,
               fmt::format("{}, but the file holds no base_state, as a sharded optimizer does",
                           location.merged
                               ? std::string("named as a merged optimizer")
                               : fmt::format("files of {} data parallel ranks", location.dp)))
      .in(shard.file.path);
}

}  // namespace

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
  Reader reader(location.files.size());
  for (const ShardFile& file : location.files) {
    Result<OptimizerShard> shard = reader.ReadShard(file);
    if (!shard.ok()) return std::move(shard).error().in(file.path).rank(file.tp);
    set.shards.push_back(*std::move(shard));
    const std::vector<std::string>& keys = set.shards.front().keys;
    if (set.shards.back().keys != keys)
      return Error(Errc::kCorrupt,
                   fmt::format("the file has the keys {}, {} has {}",
                               fmt::join(set.shards.back().keys, ", "),
                               BaseName(set.shards.front().file.path), fmt::join(keys, ", ")))
          .in(file.path);
  }
  NXDKIT_ASSIGN(set.style, StyleOf(location, set.shards.front()));
  set.location = std::move(location);
  return set;
}

}  // namespace nxdkit::nxd
