#include "formats/zero/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/shard_entries.h"
#include "formats/zero/partition.h"
#include "formats/zero/read_files.h"
#include "formats/zero/tag_entries.h"
#include "formats/zero/universal.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::zero {
namespace {

class Opener {
 public:
  Opener(const TagFiles& files, const OpenOptions& options) : set_(files), options_(options) {
    out_.path = files.path;
    out_.form = dcp::FolderForm::kRankFiles;
  }

  Result<Opened> Run() {
    NXDKIT_TRY(OpenFiles());
    NXDKIT_TRY(ReadModels());
    Status state = OkStatus();
    if (set_.universal)
      NXDKIT_TRY(AddFromUniversal());
    else if (set_.per_rank)
      NXDKIT_TRY(AddStage3());
    else
      state = AddStage12();
    if (state.ok()) state = CheckEntries();
    if (!state.ok()) NXDKIT_TRY(LeaveState(std::move(state).error()));
    AddScheduler();
    facts_.steps = model().steps;
    facts_.version = model().version;
    facts_.others = model().others;
    for (const std::string& buffer : model().buffers) out_.whole_keys.insert(buffer);
    out_.files = std::move(files_.files);
    return Opened{std::move(out_), std::move(facts_)};
  }

 private:
  const ModelFile& model() const { return models_.front(); }

  Status OpenFiles() {
    std::set<std::string> names;
    for (const auto* files : {&set_.models, &set_.optimizers})
      for (const auto& [rank, name] : *files) names.insert(name);
    if (set_.universal) {
      NXDKIT_ASSIGN(universal_, ListUniversal(set_.path));
      for (const std::string& name : universal_.FileNames()) names.insert(name);
    }
    NXDKIT_ASSIGN(files_, dcp::FolderFiles::Open(set_.path, names, set_.path));
    return OkStatus();
  }

  Status ReadModels() {
    for (const auto& [rank, name] : set_.models) {
      NXDKIT_ASSIGN(const torch::Archive archive, entries_.Read(name, rank));
      NXDKIT_ASSIGN(ModelFile model, ReadModelFile(archive).in(archive.path));
      models_.push_back(std::move(model));
    }
    return OkStatus();
  }

  // Those of all ranks, which agree with each other.
  Status ReadOptimizers() {
    const auto first = set_.optimizers.begin();
    NXDKIT_ASSIGN(const torch::Archive archive, entries_.Read(first->second, first->first));
    NXDKIT_ASSIGN(const OptimizerFile head, ReadOptimizerFile(archive).in(archive.path));
    facts_.world = static_cast<int>(head.ranks.empty() ? set_.optimizers.size() : 0);
    for (const int64_t count : head.ranks)
      facts_.world = std::max(facts_.world, static_cast<int>(std::min<int64_t>(count, 1 << 20)));
    NXDKIT_TRY(
        CheckRanks(set_.optimizers, facts_.world, "optimizer's", out_.warnings).in(set_.path));
    for (int rank = 0; rank < facts_.world; ++rank) {
      const std::string& name = set_.optimizers.at(rank);
      NXDKIT_ASSIGN(const torch::Archive read, entries_.Read(name, rank));
      NXDKIT_ASSIGN(OptimizerFile file, ReadOptimizerFile(read).in(read.path));
      NXDKIT_TRY(CheckAgrees(head, file, rank).in(read.path));
      ranks_.push_back(std::move(file));
    }
    facts_.stage = head.stage;
    facts_.form = head.says_stage || head.stage == 3 ? fmt::format("ZeRO stage {}", head.stage)
                                                     : "BF16_Optimizer";
    return OkStatus();
  }

  Status CheckAgrees(const OptimizerFile& head, const OptimizerFile& file, int rank) const {
    const auto differs = [&](std::string_view what) {
      return Corrupt("rank {} has another {} than rank {}", rank, what,
                     set_.optimizers.begin()->first)
          .rank(rank)
          .hint("the files are of two saves");
    };
    if (file.stage != head.stage) return differs("zero_stage");
    if (file.ranks != head.ranks) return differs("partition_count");
    if (file.version != head.version) return differs("ds_version");
    if (file.holes != head.holes) return differs("param_alignment_paddings");
    if (file.states.size() != head.states.size()) return differs("number of states");
    for (size_t g = 0; g < file.states.size(); ++g)
      if (file.states[g].step != head.states[g].step) return differs("step");
    return OkStatus();
  }

  // The weights are whole in the model's file; what the ranks have is the optimizer's alone.
  Status AddStage12() {
    std::set<std::string> trained;
    if (model().groups)
      for (const std::vector<NamedShape>& group : *model().groups)
        for (const NamedShape& each : group) trained.insert(each.name);
    for (const NamedTensor& tensor : model().module) {
      NXDKIT_TRY(entries_.AddWhole(set_.models.at(0), tensor.name, tensor.stored));
      if (model().buffers.contains(tensor.name))
        ++facts_.buffers;
      else if (model().groups && !trained.contains(tensor.name) && !IsAlias(tensor.name) &&
               *ElementCount(tensor.stored.shape) > 0)
        ++facts_.frozen;
    }
    facts_.form = "ZeRO stage 0";
    NXDKIT_TRY(CheckEntries());
    Remember();
    if (!set_.optimizers.empty()) return AddState12();
    if (model().has_optimizer)
      return Unsupported(
                 "stage 0 keeps the optimizer's state by numbers, and nothing says which "
                 "parameter a number is")
          .in(JoinPath(set_.path, set_.models.at(0)))
          .hint("with stage 1 it has names; --no-optimizer takes the weights alone");
    AddWarning(out_, "there are no files of the optimizer: only the weights are read");
    return OkStatus();
  }

  bool IsAlias(const std::string& name) const {
    return std::ranges::any_of(model().shared,
                               [&](const auto& pair) { return pair.first == name; });
  }

  Status AddState12() {
    NXDKIT_TRY(ReadOptimizers());
    if (!model().groups)
      return Corrupt("there is no param_shapes, which names what is in the flat groups")
          .in(JoinPath(set_.path, set_.models.at(0)));
    NXDKIT_ASSIGN(const Partition partition, PartitionOf(*model().groups, ranks_).in(set_.path));
    NXDKIT_TRY(CheckShapes(partition));
    if (options_.optimizer) NXDKIT_TRY(CheckPadding(partition));
    NXDKIT_TRY(AddState(partition, true));
    facts_.proofs.push_back(fmt::format(
        "flat groups of {} rank{} have the {} elements of {} parameters and {} of padding",
        facts_.world, facts_.world == 1 ? "" : "s", partition.elements, partition.places.size(),
        partition.padding));
    return OkStatus();
  }

  // What a group's list says of a parameter is what the module has.
  Status CheckShapes(const Partition& partition) const {
    std::map<std::string_view, const StoredTensor*> module;
    for (const NamedTensor& tensor : model().module) module.emplace(tensor.name, &tensor.stored);
    for (const Place& place : partition.places) {
      const auto found = module.find(place.name);
      if (found == module.end())
        return Corrupt("param_shapes has it, and the module has not").on(place.name);
      if (found->second->shape != place.shape)
        return Corrupt("param_shapes says {}, the module has {}", ShapeText(place.shape),
                       ShapeText(found->second->shape))
            .on(place.name);
    }
    return OkStatus();
  }

  // Of stages 1 and 2 padding is zeros: else the parameters are in another order, or of another
  // run.
  Status CheckPadding(const Partition& partition) const {
    for (size_t r = 0; r < ranks_.size(); ++r)
      for (size_t g = 0; g < partition.lengths.size(); ++g) {
        const int64_t lean = partition.lengths[g][r];
        NXDKIT_TRY(CheckZero(ranks_[r].masters[g], lean, r, g, "the master weights"));
        if (g >= ranks_[r].states.size()) continue;
        for (const auto& [name, tensor] : ranks_[r].states[g].tensors)
          NXDKIT_TRY(CheckZero(tensor, lean, r, g, name));
      }
    return OkStatus();
  }

  static Status CheckZero(const StoredTensor& flat, int64_t lean, size_t rank, size_t group,
                          std::string_view what) {
    if (flat.shape[0] <= lean) return OkStatus();
    NXDKIT_ASSIGN(const bool zero, IsZeroFrom(flat, lean));
    if (zero) return OkStatus();
    return Corrupt("{} of group {} are not zero after their {} elements, where they are padded",
                   what, group, lean)
        .in(flat.storage->path())
        .rank(static_cast<int64_t>(rank))
        .hint("param_shapes are of another run than these files");
  }

  // Under the names of weights (`masters` false) or beside them: what the ranks have of every
  // parameter.
  Status AddState(const Partition& partition, bool masters) {
    facts_.trained = partition.places.size();
    const OptimizerFile& head = ranks_.front();
    for (const Place& place : partition.places) {
      if (masters) NXDKIT_TRY(AddMasters(place));
      for (const auto& [alias, name] : model().shared)
        if (!masters && name == place.name) NXDKIT_TRY(AddFlat(place, alias));
      if (!masters) NXDKIT_TRY(AddFlat(place, place.name));
      const size_t g = place.group;
      if (g < head.states.size()) NXDKIT_TRY(AddKept(place));
      const size_t options = head.stage == 3 && g < head.group_of.size() ? head.group_of[g] : g;
      if (options < head.options.size())
        NXDKIT_TRY(entries_.AddOptions(place.name, head.options[options]));
      if (facts_.groups.size() <= options) facts_.groups.resize(options + 1);
      facts_.groups[options].push_back(place.name);
    }
    return OkStatus();
  }

  Status AddMasters(const Place& place) {
    for (const auto& [alias, name] : model().shared)
      if (name == place.name) NXDKIT_TRY(AddFlat(place, StateKey(alias, kMasters)));
    return AddFlat(place, StateKey(place.name, kMasters));
  }

  Status AddFlat(const Place& place, const std::string& key) {
    return entries_.AddRanges(set_.optimizers, place, key, [&](int rank) {
      return &ranks_[static_cast<size_t>(rank)].masters[place.group];
    });
  }

  Status AddKept(const Place& place) {
    const GroupState& head = ranks_.front().states[place.group];
    for (const auto& [name, tensor] : head.tensors)
      NXDKIT_TRY(entries_.AddRanges(
          set_.optimizers, place, StateKey(place.name, name),
          [&, &kept = name](int rank) -> const StoredTensor* {
            const auto& tensors = ranks_[static_cast<size_t>(rank)].states[place.group].tensors;
            const auto found = tensors.find(kept);
            return found == tensors.end() ? nullptr : &found->second;
          }));
    if (!head.step || head.tensors.empty()) return OkStatus();
    return entries_.AddStep(set_.optimizers.at(0), place.name, *head.step);
  }

  // The weights are the master weights, which the ranks share.
  Status AddStage3() {
    if (set_.optimizers.empty())
      return NotFound("there are no files of the optimizer, in which stage 3 has the weights")
          .in(set_.path);
    NXDKIT_TRY(ReadOptimizers());
    NXDKIT_TRY(CheckRanks(set_.models, facts_.world, "model's", out_.warnings).in(set_.path));
    if (facts_.stage != 3)
      return Corrupt("the model's files are those of stage 3, the optimizer says stage {}",
                     facts_.stage)
          .in(set_.path);
    if (!model().groups)
      return Corrupt("there is no param_shapes, which names what is in the flat groups")
          .in(JoinPath(set_.path, set_.models.at(0)));
    NXDKIT_ASSIGN(const Partition partition, PartitionOf(*model().groups, ranks_).in(set_.path));
    NXDKIT_TRY(AddState(partition, false));
    NXDKIT_TRY(AddFrozen());
    NXDKIT_TRY(AddBuffers());
    for (const NamedTensor& tensor : model().module)
      if (!model().buffers.contains(tensor.name)) facts_.dtypes[tensor.name] = tensor.stored.dtype;
    facts_.proofs.push_back(
        fmt::format("the parts of {} rank{} have the {} elements of {} parameters and {} of "
                    "padding, which is not looked at",
                    facts_.world, facts_.world == 1 ? "" : "s", partition.elements,
                    partition.places.size(), partition.padding));
    return OkStatus();
  }

  // Of a stage 3 source the frozen parameters are still in the ranks' model files.
  Status AddFromUniversal() {
    NXDKIT_TRY(AddUniversal(model(), set_.models.at(0), universal_, entries_, facts_));
    if (!set_.per_rank) return OkStatus();
    facts_.world = static_cast<int>(models_.size());
    NXDKIT_TRY(CheckRanks(set_.models, facts_.world, "model's", out_.warnings).in(set_.path));
    return AddFrozen();
  }

  // Every rank has a part of a frozen parameter in its own model's file.
  Status AddFrozen() {
    for (const NamedShape& frozen : model().frozen) {
      if (entries_.Has(frozen.name)) continue;
      ++facts_.frozen;
      const int64_t count = *ElementCount(frozen.shape);
      Place place{frozen.name, frozen.shape, 0, RangesAt(0, count, facts_.world)};
      for (int rank = 0; rank < facts_.world; ++rank)
        NXDKIT_TRY(CheckFragment(frozen, rank, PartOf(count, facts_.world)));
      const auto part = [&](int rank) {
        return &models_[static_cast<size_t>(rank)].frozen_parts.at(frozen.name);
      };
      NXDKIT_TRY(entries_.AddRanges(set_.models, place, frozen.name, part));
      for (const auto& [alias, name] : model().shared)
        if (name == frozen.name) NXDKIT_TRY(entries_.AddRanges(set_.models, place, alias, part));
    }
    return OkStatus();
  }

  Status CheckFragment(const NamedShape& frozen, int rank, int64_t part) const {
    const auto& parts = models_[static_cast<size_t>(rank)].frozen_parts;
    const auto found = parts.find(frozen.name);
    const auto wrong = [&](Error error) {
      return std::move(error)
          .in(JoinPath(set_.path, set_.models.at(rank)))
          .on(frozen.name)
          .rank(rank);
    };
    if (found == parts.end()) return wrong(Corrupt("there is no part of the frozen parameter"));
    const StoredTensor& stored = found->second;
    if (stored.shape.size() == 1 && IsPacked(stored) && stored.shape[0] == part) return OkStatus();
    return wrong(Corrupt("the part of the frozen parameter is of shape {}, expected {} elements",
                         ShapeText(stored.shape), part));
  }

  // Every rank has them whole; what is empty and nobody names is a second name of a module.
  Status AddBuffers() {
    std::vector<std::string> unknown;
    for (const NamedTensor& tensor : model().module) {
      const bool buffer = model().buffers.contains(tensor.name);
      facts_.buffers += buffer;
      if (entries_.Has(tensor.name)) continue;
      const bool has_elements = *ElementCount(tensor.stored.shape) > 0;
      if (buffer || has_elements)
        NXDKIT_TRY(entries_.AddWhole(set_.models.at(0), tensor.name, tensor.stored));
      else
        unknown.push_back(tensor.name);
    }
    if (!unknown.empty())
      AddWarning(out_, fmt::format("{} {} left out: stage 3 does not say which parameter {}; a "
                                   "module may have a second name",
                                   FirstNames(unknown), unknown.size() == 1 ? "is" : "are",
                                   unknown.size() == 1 ? "it is" : "they are"));
    return OkStatus();
  }

  Status CheckEntries() const {
    for (const dcp::StoredEntry& entry : out_.tensors)
      NXDKIT_TRY(dcp::CheckCover(entry).in(out_.path).on(entry.key));
    return dcp::CheckScalars(out_);
  }

  // What there is without the optimizer's state, for who does not ask for it.
  void Remember() {
    tensors_ = out_.tensors.size();
    for (const TensorFile& file : files_.files) in_files_.push_back(file.tensors.size());
  }
  Status LeaveState(Error error) {
    const bool has_weights = !in_files_.empty();
    if (options_.optimizer || error.code() == Errc::kIo || !has_weights) return error;
    AddWarning(out_, fmt::format("the optimizer's state cannot be read: {}", error.ToString()));
    out_.tensors.resize(tensors_);
    out_.metadata.objects.clear();
    for (size_t f = 0; f < in_files_.size(); ++f) files_.files[f].tensors.resize(in_files_[f]);
    return OkStatus();
  }

  void AddScheduler() {
    if (!model().scheduler) return;
    for (const auto& [key, value] : *model().scheduler->dict())
      if (key.string())
        out_.metadata.objects.push_back({"lr_scheduler." + *key.string(), {}, value});
  }

  const TagFiles& set_;
  OpenOptions options_;
  dcp::Folder out_;
  dcp::FolderFiles files_;
  Facts facts_;
  TagEntries entries_{out_, files_};
  std::vector<ModelFile> models_;     // by rank
  std::vector<OptimizerFile> ranks_;  // the optimizer's, by rank
  UniversalFiles universal_;
  size_t tensors_ = 0;            // entries before the optimizer's
  std::vector<size_t> in_files_;  // tensors of each file before them
};

}  // namespace

Result<Opened> Open(const TagFiles& files, const OpenOptions& options) {
  return Opener(files, options).Run();
}

}  // namespace nxdkit::zero
