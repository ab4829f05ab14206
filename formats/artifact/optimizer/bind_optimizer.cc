#include "formats/artifact/optimizer/bind_optimizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "formats/artifact/optimizer/optimizer_entries.h"
#include "formats/nxd/check_optimizer.h"

namespace nxdkit::ops {
namespace {

using nxd::OptimizerSet;
using nxd::OptimizerShard;
using nxd::OptimizerStyle;
using nxd::RankParams;
using Kind = OptimizerEntry::Kind;

// The model's parameters that a tensor holds parts of, each once.
std::vector<uint32_t> ParamsOf(const TensorLayout& tensor) {
  std::vector<uint32_t> params;
  for (const Piece& piece : tensor.pieces)
    if (std::ranges::find(params, piece.param) == params.end()) params.push_back(piece.param);
  return params;
}

TensorLayout ScalarLayout(std::string name, uint32_t file, uint32_t param) {
  TensorLayout tensor{std::move(name), file, {}, std::nullopt, {}, {}};
  AddWhole(tensor, param, {});
  return tensor;
}

class Binder {
 public:
  Binder(BoundArtifact& out, const InputHints& hints) : out_(out), hints_(hints) {}

  Status Run(nxd::OptimizerLocation location) {
    NXDKIT_TRY(CheckSupported(location));
    NXDKIT_TRY(FindRankParams());
    Result<OptimizerSet> set = ReadOptimizer(std::move(location));
    if (!set.ok()) return std::move(set).error();
    NXDKIT_TRY(nxd::CheckGroups(*set));
    const bool tied = out_.model->config.tied;
    NXDKIT_ASSIGN(optimizer_.order, nxd::FindParamOrder(*set, ranks_, tied, hints_.param_order));
    optimizer_.style = set->style;
    optimizer_.dp = set->location.dp;
    optimizer_.keys = set->shards.front().keys;
    optimizer_.groups = set->shards.front().groups;
    optimizer_.entries.resize(out_.params.size());
    optimizer_.masters.resize(out_.params.size());
    seen_.resize(out_.params.size(), false);
    for (const OptimizerShard& shard : set->shards) {
      Status added = AddShard(*set, shard);
      if (!added.ok()) return std::move(added).error().in(shard.file.path).rank(shard.file.tp);
    }
    out_.optimizer = std::move(optimizer_);
    return OkStatus();
  }

 private:
  Status CheckSupported(const nxd::OptimizerLocation& location) const {
    const nxd::SetLocation& set = out_.artifact.set->location;
    if (out_.nxd_geometry.names == nxd::NameStyle::kMegatron)
      return Error(Errc::kUnsupported,
                   "how NxDT's Megatron models group their parameters is not known, so the "
                   "optimizer's numbers cannot be told")
          .in(location.folder)
          .hint("--no-optimizer leaves the optimizer's state out");
    if (const models::Family& family = *out_.model->config.family; !family.optimizer_known)
      return Error(Errc::kUnsupported,
                   fmt::format("how trainers of {} models number their parameters is not known",
                               family.model_type))
          .in(location.folder)
          .hint("--no-optimizer leaves the optimizer's state out");
    if (set.ep > 1)
      return Error(Errc::kUnsupported,
                   fmt::format("the set has {} expert parallel ranks; their optimizer state is not "
                               "supported",
                               set.ep))
          .in(location.folder)
          .hint("--no-optimizer leaves the optimizer's state out");
    if (location.tp == set.tp && location.pp == set.pp) return OkStatus();
    return Error(Errc::kCorrupt,
                 fmt::format("the optimizer's files are of tp {} pp {}, the model's of tp {} pp {}",
                             location.tp, location.pp, set.tp, set.pp))
        .in(location.folder);
  }

  // What the model's files hold, rank by rank: a trainer may cut the pipeline where it likes.
  Status FindRankParams() {
    const nxd::SetLocation& set = out_.artifact.set->location;
    for (size_t f = 0; f < set.files.size(); ++f) {
      const nxd::ShardFile& file = set.files[f];
      NXDKIT_ASSIGN(const std::vector<nxd::RankTensor> tensors,
                    nxd::RankTensors(*out_.model, out_.nxd_geometry, file.tp, true));
      std::unordered_set<std::string_view> stored;
      for (const StoredTensor& tensor : out_.artifact.files[f].tensors) stored.insert(tensor.name);
      RankParams rank{file.tp, file.pp, {}};
      for (const nxd::RankTensor& tensor : tensors)
        if (stored.contains(tensor.layout.name)) rank.params.push_back(tensor.layout);
      NXDKIT_TRY(nxd::CheckModuleOrder(rank, out_.artifact.files[f]));
      ranks_.push_back(std::move(rank));
    }
    return OkStatus();
  }

  const RankParams& RankOf(const nxd::ShardFile& file) const {
    return ranks_[static_cast<size_t>(file.tp) * out_.artifact.set->location.pp +
                  static_cast<size_t>(file.pp)];
  }

  Status AddShard(const OptimizerSet& set, const OptimizerShard& shard) {
    file_ = static_cast<uint32_t>(out_.artifact.files.size());
    out_.artifact.files.push_back({shard.file.path, shard.format, shard.file_bytes, {}, {}});
    out_.artifact.ranks.push_back({shard.file.path, shard.file.tp, shard.file.pp});
    out_.bound.layout.files.push_back(out_.artifact.ranks.back());
    optimizer_.shapes_are_sizes |= shard.shapes_are_sizes;
    const std::vector<TensorLayout>& params = RankOf(shard.file).params;
    int64_t pid = 0;
    for (const std::vector<size_t>& group :
         nxd::GroupParams(params, optimizer_.order, out_.model->config.tied))
      for (const size_t index : group) {
        const auto state = shard.state.find(pid++);
        Status added = AddParam(set, shard, params[index],
                                state == shard.state.end() ? nxd::ParamState() : state->second);
        if (!added.ok()) return std::move(added).error().on(params[index].name);
      }
    return OkStatus();
  }

  Status AddParam(const OptimizerSet& set, const OptimizerShard& shard, const TensorLayout& param,
                  const nxd::ParamState& state) {
    NXDKIT_TRY(nxd::CheckRows(set, param, state));
    NXDKIT_TRY(CheckSame(param, state));
    for (size_t e = 0; state.entries && e < state.entries->size(); ++e) {
      const nxd::StateEntry& entry = (*state.entries)[e];
      if (!entry.tensor) continue;
      NXDKIT_TRY(AddTensor(set, shard, param, entry.name, *entry.tensor,
                           [&](uint32_t i) { return &(*optimizer_.entries[i])[e]; }));
    }
    if (!state.master) return OkStatus();
    return AddTensor(set, shard, param, nxd::kMasterWeights, *state.master,
                     [&](uint32_t i) { return &*optimizer_.masters[i]; });
  }

  // The first rank that holds a parameter says what is kept of it; the others must agree.
  Status CheckSame(const TensorLayout& param, const nxd::ParamState& state) {
    NXDKIT_ASSIGN(const OptimizerEntries entries, EntriesOf(state));
    for (const uint32_t i : ParamsOf(param)) {
      if (!seen_[i]) {
        seen_[i] = true;
        optimizer_.entries[i] = entries;
        if (state.master)
          optimizer_.masters[i] = {nxd::kMasterWeights, Kind::kLike, 0, 0,
                                   state.master->dtype, {},          ""};
        Number(i);
        continue;
      }
      NXDKIT_TRY(RequireSame(optimizer_.entries[i], entries));
      if (optimizer_.masters[i].has_value() != state.master.has_value())
        return Error(Errc::kCorrupt,
                     fmt::format("{} here {}, and on other ranks not so", nxd::kMasterWeights,
                                 state.master ? "has the parameter" : "lacks the parameter"));
    }
    return OkStatus();
  }

  // Gives every tensor that is kept of model parameter `i` a logical parameter.
  void Number(uint32_t i) {
    const auto add = [&](OptimizerEntry& entry) {
      if (entry.kind == Kind::kValue) return;
      LogicalTensor logical = out_.params[i];
      logical.name += "/" + entry.name;
      if (entry.kind == Kind::kScalar) logical = {logical.name, {}, 0, 0};
      entry.param = static_cast<uint32_t>(out_.params.size());
      entry.stored = kNowhere;
      out_.params.push_back(std::move(logical));
    };
    if (optimizer_.entries[i])
      for (OptimizerEntry& entry : *optimizer_.entries[i]) add(entry);
    if (optimizer_.masters[i]) add(*optimizer_.masters[i]);
  }

  // `entry_of` gives the entry of a model parameter.
  template <typename EntryOf>
  Status AddTensor(const OptimizerSet& set, const OptimizerShard& shard, const TensorLayout& param,
                   const std::string& name, const StoredTensor& stored, EntryOf entry_of) {
    const std::string full_name = param.name + "/" + name;
    out_.artifact.files[file_].tensors.push_back(stored);  // its file is one of the artifact's
    if (stored.shape.empty()) {
      // One number for all that the tensor holds: it is the step of each of them.
      for (const uint32_t i : ParamsOf(param))
        Add(ScalarLayout(full_name, file_, entry_of(i)->param), stored, *entry_of(i));
      return OkStatus();
    }
    TensorLayout layout = param;
    layout.name = full_name;
    layout.file = file_;
    for (Piece& piece : layout.pieces) piece.param = entry_of(piece.param)->param;
    if (set.style == OptimizerStyle::kZero1) {
      const int64_t rows = nxd::ZeroRows(param.shape[0], set.location.dp);
      layout = CutRows(layout, shard.file.dp * rows, rows);
    }
    for (const uint32_t i : ParamsOf(param)) Remember(*entry_of(i));
    out_.bound.layout.tensors.push_back(std::move(layout));
    out_.bound.stored.push_back(stored);
    out_.bound.stored.back().name = full_name;
    return OkStatus();
  }

  void Add(TensorLayout layout, const StoredTensor& stored, OptimizerEntry& entry) {
    Remember(entry);
    out_.bound.stored.push_back(stored);
    out_.bound.stored.back().name = layout.name;
    out_.bound.layout.tensors.push_back(std::move(layout));
  }

  void Remember(OptimizerEntry& entry) {
    if (entry.stored == kNowhere) entry.stored = out_.bound.stored.size();
  }

  static constexpr size_t kNowhere = SIZE_MAX;

  BoundArtifact& out_;
  const InputHints& hints_;
  BoundOptimizer optimizer_;
  std::vector<RankParams> ranks_;  // per tp and pp rank
  std::vector<bool> seen_;         // per model parameter
  uint32_t file_ = 0;
};

}  // namespace

namespace {

// Older forms keep it inside the files of the model, each rank with its own numbers.
Status RefuseStateInside(const nxd::ShardSet& set) {
  if (set.optimizer_entry.empty()) return OkStatus();
  return Error(Errc::kUnsupported,
               fmt::format("the files of the model hold the optimizer's state too (\"{}\"), and "
                           "only that in optim/ can be resharded",
                           set.optimizer_entry))
      .in(set.location.shard_folder)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace

Status BindOptimizer(BoundArtifact& out, const InputHints& hints) {
  NXDKIT_TRY(RefuseStateInside(*out.artifact.set));
  NXDKIT_ASSIGN(std::optional<nxd::OptimizerLocation> location,
                nxd::LocateOptimizer(out.artifact.set->location.tag_folder));
  if (!location) return OkStatus();
  return Binder(out, hints).Run(*std::move(location));
}

}  // namespace nxdkit::ops
