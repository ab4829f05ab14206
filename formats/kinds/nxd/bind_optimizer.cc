#include "formats/kinds/nxd/read_nxd.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/nxd/check_optimizer.h"
#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using nxd::OptimizerSet;
using nxd::OptimizerShard;
using nxd::OptimizerStyle;
using nxd::RankParams;
using EntryKind = OptimizerEntry::Kind;
using OptimizerEntries = std::optional<std::vector<OptimizerEntry>>;  // nullopt: before a step

Result<OptimizerEntry> EntryOf(const nxd::StateEntry& entry) {
  OptimizerEntry made;
  made.name = entry.name;
  if (entry.tensor) {
    made.kind = entry.tensor->shape.empty() ? EntryKind::kScalar : EntryKind::kLike;
    made.dtype = entry.tensor->dtype;
    return made;
  }
  Result<std::string> text = torch::WritePickle(entry.value, {});
  if (!text.ok())
    return Unsupported("the value of {} cannot be carried over: {}", entry.name,
                       text.error().message());
  made.kind = EntryKind::kValue;
  made.value = entry.value;
  made.value_text = *std::move(text);
  return made;
}

std::string Names(const OptimizerEntries& entries) {
  if (!entries) return "nothing";
  std::string names;
  for (const OptimizerEntry& entry : *entries) names += (names.empty() ? "" : ", ") + entry.name;
  return "[" + names + "]";
}

bool SameKinds(const OptimizerEntries& a, const OptimizerEntries& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::ranges::equal(*a, *b, [](const OptimizerEntry& x, const OptimizerEntry& y) {
    return x.name == y.name && x.kind == y.kind;
  });
}

// The entries of one file; logical parameters are not assigned yet.
Result<OptimizerEntries> EntriesOf(const nxd::ParamState& state) {
  if (!state.entries) return OptimizerEntries();
  std::vector<OptimizerEntry> entries;
  for (const nxd::StateEntry& entry : *state.entries) {
    NXDKIT_ASSIGN(OptimizerEntry made, EntryOf(entry));
    entries.push_back(std::move(made));
  }
  return OptimizerEntries(std::move(entries));
}

// Another rank must have the same entries for a parameter as the first one: names, kinds and
// values.
Status RequireSame(const OptimizerEntries& first, const OptimizerEntries& here) {
  if (!SameKinds(first, here))
    return Corrupt("the optimizer keeps {} here, and {} on other ranks", Names(here), Names(first));
  for (size_t e = 0; here && e < here->size(); ++e)
    if ((*here)[e].value_text != (*first)[e].value_text)
      return Corrupt("{} has a different value on other ranks", (*here)[e].name);
  return OkStatus();
}

class Binder {
 public:
  Binder(BoundArtifact& out, const InputHints& hints)
      : out_(out),
        hints_(hints),
        set_(NxdStateOf(out.artifact)->set.location),
        geometry_(NxdLayoutOf(out)->geometry) {}

  Status Run(nxd::OptimizerLocation location) {
    NXDKIT_TRY(CheckSupported(location).in(location.folder));
    NXDKIT_TRY(FindRankParams());
    NXDKIT_ASSIGN(const OptimizerSet set, ReadOptimizer(std::move(location)));
    NXDKIT_TRY(nxd::CheckGroups(set));
    const bool tied = out_.model->config.tied;
    NXDKIT_ASSIGN(optimizer_.order, nxd::FindParamOrder(set, ranks_, tied, ParamOrderOf(hints_)));
    optimizer_.style = set.style;
    optimizer_.fused_gate_up = geometry_.fused_gate_up;
    optimizer_.pp = geometry_.pp;
    optimizer_.dp = set.location.dp;
    optimizer_.keys = set.shards.front().keys;
    optimizer_.groups = set.shards.front().groups;
    for (const std::string& option : set.shards.front().tensor_options)
      out_.artifact.warnings.push_back(
          fmt::format("the option {} is a tensor, and is taken as the number in it", option));
    optimizer_.entries.resize(out_.params.size());
    optimizer_.masters.resize(out_.params.size());
    optimizer_.group_of.resize(out_.params.size(), 0);
    seen_.resize(out_.params.size(), false);
    for (const OptimizerShard& shard : set.shards)
      NXDKIT_TRY(AddShard(set, shard).in(shard.file.path).rank(shard.file.tp));
    out_.optimizer = std::move(optimizer_);
    return OkStatus();
  }

 private:
  Status CheckSupported(const nxd::OptimizerLocation& location) const {
    if (geometry_.names == nxd::NameStyle::kMegatron)
      return Unsupported(
                 "how NxDT's Megatron models group their parameters is not known, so the "
                 "optimizer's numbers cannot be assigned")
          .hint("--no-optimizer leaves the optimizer's state out");
    if (const models::Family& family = *out_.model->config.family; !family.training.optimizer)
      return Unsupported(
                 "how trainers of {} models number their parameters is not known: the text "
                 "of the family has no line \"training optimizer\"",
                 family.model_type)
          .hint("--no-optimizer leaves the optimizer's state out");
    if (set_.ep > 1)
      return Unsupported(
                 "the set has {} expert parallel ranks; their optimizer state is not supported",
                 set_.ep)
          .hint("--no-optimizer leaves the optimizer's state out");
    if (location.tp == set_.tp && location.pp == set_.pp) return OkStatus();
    return Corrupt("the optimizer's files have tp {} pp {}, the model's tp {} pp {}", location.tp,
                   location.pp, set_.tp, set_.pp);
  }

  // The parameters in the model's files, rank by rank: a trainer may cut the pipeline anywhere.
  Status FindRankParams() {
    for (size_t f = 0; f < set_.files.size(); ++f) {
      const nxd::ShardFile& file = set_.files[f];
      NXDKIT_ASSIGN(const std::vector<nxd::RankTensor> tensors,
                    nxd::RankTensors(*out_.model, geometry_, file.tp, true));
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
    return ranks_[static_cast<size_t>(file.tp) * set_.pp + static_cast<size_t>(file.pp)];
  }

  Status AddShard(const OptimizerSet& set, const OptimizerShard& shard) {
    file_ = static_cast<uint32_t>(out_.artifact.files.size());
    out_.artifact.files.push_back({shard.file.path, shard.format, shard.file_bytes, {}, {}});
    out_.artifact.ranks.push_back({shard.file.path, shard.file.tp, shard.file.pp});
    out_.bound.layout.files.push_back(out_.artifact.ranks.back());
    optimizer_.shapes_are_sizes |= shard.shapes_are_sizes;
    const std::vector<TensorLayout>& params = RankOf(shard.file).params;
    int64_t pid = 0;
    const nxd::ParamGroups groups =
        nxd::GroupParams(params, optimizer_.order, out_.model->config.tied);
    for (size_t g = 0; g < groups.size(); ++g)
      for (const size_t index : groups[g]) {
        for (const uint32_t i : ParamsOf(params[index])) optimizer_.group_of[i] = g;
        const auto state = shard.state.find(pid++);
        NXDKIT_TRY(AddParam(set, shard, params[index],
                            state == shard.state.end() ? nxd::ParamState() : state->second)
                       .on(params[index].name));
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
      AddTensor(set, shard, param, entry.name, *entry.tensor,
                [&](uint32_t i) { return &(*optimizer_.entries[i])[e]; });
    }
    if (state.master)
      AddTensor(set, shard, param, nxd::kMasterWeights, *state.master,
                [&](uint32_t i) { return &*optimizer_.masters[i]; });
    return OkStatus();
  }

  // The first rank that holds a parameter defines its entries; the others must agree.
  Status CheckSame(const TensorLayout& param, const nxd::ParamState& state) {
    NXDKIT_ASSIGN(const OptimizerEntries entries, EntriesOf(state));
    for (const uint32_t i : ParamsOf(param)) {
      if (!seen_[i]) {
        seen_[i] = true;
        optimizer_.entries[i] = entries;
        if (state.master)
          optimizer_.masters[i] = {
              nxd::kMasterWeights, EntryKind::kLike, 0, 0, state.master->dtype, {}, ""};
        Number(i);
        continue;
      }
      NXDKIT_TRY(RequireSame(optimizer_.entries[i], entries));
      if (optimizer_.masters[i].has_value() != state.master.has_value())
        return Corrupt("{} here {}, unlike other ranks", nxd::kMasterWeights,
                       state.master ? "has the parameter" : "lacks the parameter");
    }
    return OkStatus();
  }

  // Assigns a logical parameter to every state tensor of model parameter `i`.
  void Number(uint32_t i) {
    const auto add = [&](OptimizerEntry& entry) {
      if (entry.kind == EntryKind::kValue) return;
      LogicalTensor logical = out_.params[i];
      logical.name += "/" + entry.name;
      if (entry.kind == EntryKind::kScalar) logical = {logical.name, {}, 0, 0};
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
  void AddTensor(const OptimizerSet& set, const OptimizerShard& shard, const TensorLayout& param,
                 const std::string& name, const StoredTensor& stored, EntryOf entry_of) {
    const std::string full_name = param.name + "/" + name;
    out_.artifact.files[file_].tensors.push_back(stored);  // its file is one of the artifact's
    if (stored.shape.empty()) {
      // A tensor of several parameters has one step: it applies to each of them.
      for (const uint32_t i : ParamsOf(param)) {
        Remember(*entry_of(i));
        Add(WholeTensor(full_name, file_, entry_of(i)->param, {}), stored);
      }
      return;
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
    Add(std::move(layout), stored);
  }

  void Add(TensorLayout layout, StoredTensor stored) {
    stored.name = layout.name;
    out_.bound.Add(std::move(layout), std::move(stored));
  }

  void Remember(OptimizerEntry& entry) {
    if (entry.stored == kNowhere) entry.stored = out_.bound.stored.size();
  }

  static constexpr size_t kNowhere = SIZE_MAX;

  BoundArtifact& out_;
  const InputHints& hints_;
  const nxd::SetLocation& set_;
  const nxd::Geometry& geometry_;
  BoundOptimizer optimizer_;
  std::vector<RankParams> ranks_;  // per tp and pp rank
  std::vector<bool> seen_;         // per model parameter
  uint32_t file_ = 0;
};

// Older forms keep it inside the model's files, each rank with its own numbers.
Status RefuseStateInside(const nxd::ShardSet& set) {
  if (set.optimizer_entry.empty()) return OkStatus();
  return Unsupported(
             "the files of the model hold the optimizer's state too (\"{}\"), and only that in "
             "optim/ can be resharded",
             set.optimizer_entry)
      .in(set.location.shard_folder)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace

Status BindOptimizer(BoundArtifact& out, const InputHints& hints) {
  const nxd::ShardSet& set = NxdStateOf(out.artifact)->set;
  NXDKIT_TRY(RefuseStateInside(set));
  if (set.location.tag_folder.empty()) return OkStatus();  // shards in memory have no folder
  NXDKIT_ASSIGN(std::optional<nxd::OptimizerLocation> location,
                nxd::LocateOptimizer(set.location.tag_folder));
  if (!location) return OkStatus();
  return Binder(out, hints).Run(*std::move(location));
}

}  // namespace nxdkit::kinds
