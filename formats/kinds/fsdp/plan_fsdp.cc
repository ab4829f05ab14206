// Rank files of an FSDP run, from logical parameters to files. Names and contents are those of the
// distributed checkpoint that the source would become; here they are cut over the ranks.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "formats/dtensor/sharding.h"
#include "formats/fsdp/units.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/dcp/dcp_contents.h"
#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/fsdp/decide_fsdp.h"
#include "formats/kinds/fsdp/fsdp_state.h"
#include "formats/kinds/run_folder.h"
#include "formats/torch/encoder.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/run_progress.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

using dcp::GlobalTensor;
using fsdp::FilePart;
using fsdp::OptimizerForm;
using torch::JoinedTensor;
using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;
using torch::TensorIndex;

constexpr std::string_view kParams = "params";

// A weight, and the optimizer's state of it.
struct Weight {
  GlobalTensor tensor;
  uint32_t param = 0;                                      // the first one
  bool shared = false;                                     // a second name of an earlier weight
  std::vector<std::pair<std::string, GlobalTensor>> kept;  // by "exp_avg"
};

struct Group {
  PickleDict options;
  std::vector<size_t> weights;
};

// One file, while it is put together: the tensors of its pickle.
class RankFile {
 public:
  RankFile(OutputBuilder& builder, std::string path, int rank)
      : builder_(builder), file_(builder.NewFile(std::move(path), -1, -1)), rank_(rank) {
    builder_.plan.layout.files[file_].writer = rank;
  }

  int rank() const { return rank_; }

  // Adds a tensor of one piece, laid out in a shape that may differ from its own `shape`.
  Result<TensorIndex> Add(TensorLayout layout, const Shape& shape) {
    NXDKIT_ASSIGN(OutputTensor output, builder_.Add(std::move(layout), file_));
    output.shape = shape;
    tensors_.push_back({output, {output}});
    return TensorIndex{tensors_.size() - 1};
  }
  // Adds them as one tensor, one after the other, in one dimension.
  Result<TensorIndex> Join(std::string name, Dtype dtype, std::vector<TensorLayout> layouts) {
    JoinedTensor joined{{std::move(name), dtype, {0}}, {}};
    for (TensorLayout& layout : layouts) {
      layout.dtype = dtype;
      NXDKIT_ASSIGN(OutputTensor part, builder_.Add(std::move(layout), file_));
      joined.as.shape[0] += *ElementCount(part.shape);
      joined.parts.push_back(std::move(part));
    }
    tensors_.push_back(std::move(joined));
    return TensorIndex{tensors_.size() - 1};
  }
  // The ranks of a mesh, from 0 on.
  TensorIndex AddRanks(int world) {
    std::string bytes;
    for (int rank = 0; rank < world; ++rank) AppendLittle(static_cast<uint32_t>(rank), bytes);
    tensors_.push_back({{"mesh", Dtype::kI32, {world}}, {}, std::move(bytes)});
    return TensorIndex{tensors_.size() - 1};
  }
  Result<Dtype> DtypeOf(const TensorLayout& layout) const {
    return layout.dtype ? Result<Dtype>(*layout.dtype) : builder_.DtypeOf(layout);
  }

  Status Finish(const PickleValue& root, const std::string& archive_name) {
    return builder_.SetEncoder(file_, torch::EncodeJoined(root, std::move(tensors_), archive_name));
  }

 private:
  OutputBuilder& builder_;
  uint32_t file_;
  int rank_;
  std::vector<JoinedTensor> tensors_;
};

class FsdpPlanner {
 public:
  FsdpPlanner(OutputBuilder& builder, const FsdpOutput& output)
      : builder_(builder),
        source_(builder.source()),
        output_(output),
        facts_(FsdpFactsOf(source_.artifact)),
        step_folder_(StepFolder(output.step)),
        folder_(JoinPath(step_folder_, output.role)) {}

  Status Run() {
    NXDKIT_TRY(CollectWeights());
    if (source_.optimizer) NXDKIT_TRY(MakeGroups());
    if (source_.optimizer && output_.form == OptimizerForm::kFlatUnits) NXDKIT_TRY(MakeUnits());
    NXDKIT_TRY(ReadSchedule());
    NXDKIT_TRY(CheckBytes());
    for (int rank = 0; rank < output_.world; ++rank) {
      NXDKIT_TRY(PlanModel(rank));
      if (source_.optimizer) NXDKIT_TRY(PlanOptimizer(rank));
      NXDKIT_TRY(PlanExtraState(rank));
    }
    return PlanSmallFiles();
  }

 private:
  // The weights come first; their states are found by their names.
  Status CollectWeights() {
    const auto& named = static_cast<const DcpOutput&>(*output_.named);
    NXDKIT_ASSIGN(DcpContents contents, MakeDcpContents(source_, named));
    std::map<std::string, size_t> numbers;
    std::set<uint32_t> met;
    std::vector<uint32_t> run;
    for (const RunTensor& tensor : source_.run) run.push_back(tensor.param);
    for (GlobalTensor& tensor : contents.tensors) {
      const std::string& key = tensor.layout.name;
      if (key.starts_with(training::kOptimizerState)) {
        auto [name, what] =
            training::SplitStateKey(std::string_view(key).substr(training::kOptimizerState.size()));
        const auto weight = numbers.find(name);
        if (weight == numbers.end())
          return Unsupported("the optimizer's state of it has another name than the weight")
              .on(key);
        weights_[weight->second].kept.emplace_back(std::move(what), std::move(tensor));
        continue;
      }
      const std::vector<uint32_t> params = ParamsOf(tensor.layout);
      const bool of_run = params.empty() || std::ranges::count(run, params.front()) > 0;
      if (of_run) continue;
      if (params.front() >= source_.model_params())
        return Unsupported("it is neither a weight nor the optimizer's state of one").on(key);
      numbers.emplace(key, weights_.size());
      const bool shared = !met.insert(params.front()).second;
      weights_.push_back({std::move(tensor), params.front(), shared, {}});
    }
    return OkStatus();
  }

  // Entries that are not tensors have no place in the files: their loaders expect tensors.
  Status CheckEntries() const {
    for (uint32_t i = 0; i < source_.optimizer->entries.size(); ++i)
      if (source_.optimizer->entries[i])
        for (const OptimizerEntry& entry : *source_.optimizer->entries[i])
          if (entry.kind == OptimizerEntry::Kind::kValue)
            return Unsupported("the optimizer keeps {} as a value, expected a tensor", entry.name)
                .in(source_.artifact.path)
                .on(source_.params[i].name);
    return OkStatus();
  }

  // The groups of the source's files stay, in their order; else parameters with the same options
  // form one.
  Status MakeGroups() {
    NXDKIT_TRY(CheckEntries());
    if (facts_ && !facts_->groups.empty()) {
      std::map<std::string, size_t> numbers;
      for (size_t i = 0; i < weights_.size(); ++i)
        numbers.emplace(weights_[i].tensor.layout.name, i);
      for (const std::vector<std::string>& names : facts_->groups) {
        Group& group = groups_.emplace_back();
        for (const std::string& name : names) {
          const auto weight = numbers.find(name);
          if (weight == numbers.end())
            return Corrupt("the optimizer's options are of a parameter that is not there").on(name);
          group.weights.push_back(weight->second);
        }
        // Numbers follow the model's order; EasyR1 lists its names in the order of FSDP's units.
        std::ranges::sort(group.weights);
        if (!group.weights.empty()) group.options = OptionsOf(weights_[group.weights.front()]);
      }
      return OkStatus();
    }
    std::map<size_t, size_t> numbers;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i].shared || weights_[i].kept.empty()) continue;
      const size_t number = source_.optimizer->group_of[weights_[i].param];
      const auto [at, added] = numbers.emplace(number, groups_.size());
      if (added) groups_.push_back({OptionsOf(weights_[i]), {}});
      groups_[at->second].weights.push_back(i);
    }
    return OkStatus();
  }

  PickleDict OptionsOf(const Weight& weight) const {
    const BoundOptimizer& optimizer = *source_.optimizer;
    if (weight.param < optimizer.options.size() && !optimizer.options[weight.param].empty())
      return optimizer.options[weight.param];
    static const PickleDict kNone;
    const size_t group = optimizer.group_of[weight.param];
    const PickleDict& said = group < optimizer.groups.size() ? optimizer.groups[group] : kNone;
    PickleDict options;
    for (const training::AdamOption& option : training::AdamOptions())
      options.emplace_back(PickleValue{std::string(option.name)}, training::OptionOf(said, option));
    return options;
  }

  Status CheckBytes() const {
    uint64_t bytes = 0;
    for (const Weight& weight : weights_) {
      bytes += LeastPlanBytes(weight.tensor.layout);
      for (const auto& [what, tensor] : weight.kept) bytes += LeastPlanBytes(tensor.layout);
    }
    return builder_.CheckPlanBytes(bytes * static_cast<uint64_t>(output_.world), output_.world);
  }

  RankFile NewFile(FilePart part, int rank) {
    return {builder_, JoinPath(folder_, fsdp::FileName(part, output_.world, rank)), rank};
  }
  Status Finish(RankFile& file, FilePart part, const PickleValue& root) const {
    return file.Finish(root, Stem(fsdp::FileName(part, output_.world, file.rank())));
  }

  // FSDP1 with one rank does not cut anything.
  bool IsPlain() const { return output_.world == 1 && output_.fsdp == 1; }

  // nullopt if nothing is cut. The mesh's ranks are a tensor of the file.
  std::optional<fsdp::PlacedWriter> PlacedIn(RankFile& file) const {
    if (IsPlain()) return std::nullopt;
    return fsdp::PlacedWriter(output_.release, output_.device, output_.world, file.rank(),
                              file.AddRanks(output_.world));
  }

  // The dimension that is cut over the ranks.
  size_t DimOf(const Shape& shape) const {
    if (output_.by_divisible)
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d] % output_.world == 0) return d;
    return 0;
  }

  // The rank's part of a tensor, with its placement on the mesh.
  Result<PickleValue> PlaceTensor(RankFile& file, const std::optional<fsdp::PlacedWriter>& placed,
                                  const GlobalTensor& tensor) const {
    if (!placed || tensor.shape.empty()) {
      NXDKIT_ASSIGN(const TensorIndex index, file.Add(tensor.layout, tensor.shape));
      return PickleValue{index};
    }
    const size_t dim = DimOf(tensor.shape);
    Box box = WholeBox(tensor.shape);
    const dtensor::Run run = dtensor::PartOf({0, tensor.shape[dim]}, output_.world, file.rank());
    box.lo[dim] = run.first;
    box.extent[dim] = run.count;
    NXDKIT_ASSIGN(const Dtype dtype, file.DtypeOf(tensor.layout));
    TensorLayout layout =
        run.count > 0 ? dcp::CutChunk(tensor, box) : TensorLayout{"", 0, box.extent, dtype, {}, {}};
    layout.dtype = dtype;
    layout.name = tensor.layout.name;
    NXDKIT_ASSIGN(const TensorIndex index, file.Add(std::move(layout), box.extent));
    return placed->Tensor(dtype, tensor.shape, static_cast<int64_t>(dim), index);
  }

  Status PlanModel(int rank) {
    RankFile file = NewFile(FilePart::kModel, rank);
    PickleDict root;
    const std::optional<fsdp::PlacedWriter> placed = PlacedIn(file);
    for (const Weight& weight : weights_) {
      NXDKIT_ASSIGN(PickleValue value, PlaceTensor(file, placed, weight.tensor));
      root.emplace_back(PickleValue{weight.tensor.layout.name}, std::move(value));
    }
    // Buffers, whole on every rank.
    const uint32_t own =
        source_.model ? static_cast<uint32_t>(source_.model->params.size()) : uint32_t{0};
    for (uint32_t i = 0; i < source_.carried.size(); ++i) {
      const Shape& shape = source_.params[own + i].shape;
      NXDKIT_ASSIGN(const TensorIndex index,
                    file.Add(WholeTensor(source_.carried[i], 0, own + i, shape), shape));
      root.emplace_back(PickleValue{source_.carried[i]}, PickleValue{index});
    }
    return Finish(file, FilePart::kModel, PickleValue::MakeDict(std::move(root)));
  }

  Status PlanOptimizer(int rank) {
    RankFile file = NewFile(FilePart::kOptimizer, rank);
    PickleDict state;
    std::vector<PickleList> params(groups_.size());
    if (output_.form == OptimizerForm::kFlatUnits)
      NXDKIT_TRY(AddUnits(file, state, params));
    else
      NXDKIT_TRY(AddParameters(file, state, params));
    PickleList groups;
    for (size_t g = 0; g < params.size(); ++g) {
      PickleDict options = groups_[g].options;
      options.emplace_back(PickleValue{std::string(kParams)},
                           PickleValue::MakeList(std::move(params[g])));
      groups.push_back(PickleValue::MakeDict(std::move(options)));
    }
    return Finish(file, FilePart::kOptimizer,
                  PickleValue::MakeDict(
                      {{{std::string("state")}, PickleValue::MakeDict(std::move(state))},
                       {{std::string("param_groups")}, PickleValue::MakeList(std::move(groups))}}));
  }

  // Adds the parameters by name, or by numbers that run through the groups.
  Status AddParameters(RankFile& file, PickleDict& state, std::vector<PickleList>& params) const {
    const bool any = std::ranges::any_of(
        weights_, [](const Weight& weight) { return HasTensor(weight) && !weight.shared; });
    const std::optional<fsdp::PlacedWriter> placed = any ? PlacedIn(file) : std::nullopt;
    int64_t number = 0;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const size_t w : groups_[g].weights) {
        const Weight& weight = weights_[w];
        const PickleValue key = output_.form == OptimizerForm::kNames
                                    ? PickleValue{weight.tensor.layout.name}
                                    : PickleValue{number++};
        params[g].push_back(key);
        if (weight.kept.empty()) continue;
        PickleDict entries;
        for (const auto& [what, tensor] : weight.kept) {
          NXDKIT_ASSIGN(PickleValue value, PlaceTensor(file, placed, tensor));
          entries.emplace_back(PickleValue{what}, std::move(value));
        }
        state.emplace_back(key, PickleValue::MakeDict(std::move(entries)));
      }
    return OkStatus();
  }

  static bool HasTensor(const Weight& weight) {
    return std::ranges::any_of(weight.kept,
                               [](const auto& kept) { return !kept.second.shape.empty(); });
  }

  // In a unit either all parameters are trained or none, and all have the same entries of state.
  Status CheckUnit(const fsdp::Unit& unit) const {
    const Weight& first = weights_[unit.tensors.front()];
    for (const size_t w : unit.tensors) {
      const Weight& weight = weights_[w];
      bool same = weight.kept.size() == first.kept.size();
      for (size_t k = 0; same && k < first.kept.size(); ++k) {
        same = weight.kept[k].first == first.kept[k].first;
        if (!same || !first.kept[k].second.shape.empty()) continue;
        const BoundOptimizer& optimizer = *source_.optimizer;
        NXDKIT_ASSIGN(
            const double a,
            training::ScalarOf(source_, *optimizer.Find(first.param, first.kept[k].first)));
        NXDKIT_ASSIGN(
            const double b,
            training::ScalarOf(source_, *optimizer.Find(weight.param, first.kept[k].first)));
        same = a == b;
      }
      if (!same)
        return Unsupported(
                   "FSDP1 flattens it with {}, and the optimizer does not keep the same of both, "
                   "or "
                   "not of the same step",
                   first.tensor.layout.name)
            .on(weight.tensor.layout.name)
            .hint("--fsdp 2, or --for easyr1, keeps them apart");
    }
    return OkStatus();
  }

  // FSDP1 has one group of options for all units.
  Status CheckOneGroup() const {
    for (const Group& group : groups_) {
      const std::string difference = training::OptionDifference(
          groups_.front().options, "the first group", group.options, "another one");
      if (!difference.empty())
        return Unsupported("FSDP1 has one group of options, and here {}", difference)
            .in(source_.artifact.path)
            .hint("--fsdp 2, or --for easyr1, keeps the groups");
    }
    return OkStatus();
  }

  // FSDP1's units, of one group.
  Status MakeUnits() {
    NXDKIT_TRY(CheckOneGroup());
    std::set<size_t> trained;
    for (const Group& group : groups_) trained.insert(group.weights.begin(), group.weights.end());
    groups_.resize(std::min<size_t>(groups_.size(), 1));
    std::vector<fsdp::ModelTensor> tensors;
    std::vector<size_t> own;
    for (size_t w = 0; w < weights_.size(); ++w) {
      fsdp::ModelTensor& tensor = tensors.emplace_back();
      tensor.name = weights_[w].tensor.layout.name;
      tensor.shape = weights_[w].tensor.shape;
      if (!weights_[w].shared) own.push_back(w);
    }
    // When an adapter is trained, FSDP1 wraps each of its leaves; everything else is frozen.
    const bool leaves = std::ranges::any_of(
        tensors, [](const fsdp::ModelTensor& tensor) { return IsOfAdapter(tensor.name); });
    const auto make = leaves ? fsdp::SingleUnits : fsdp::LayerUnits;
    for (fsdp::Unit& unit : make(tensors, own)) {
      NXDKIT_TRY(CheckUnit(unit));
      const size_t leads = unit.tensors.front();
      if (trained.contains(leads) || !weights_[leads].kept.empty())
        units_.push_back(std::move(unit));
    }
    return OkStatus();
  }

  Status AddUnits(RankFile& file, PickleDict& state, std::vector<PickleList>& params) const {
    for (size_t u = 0; u < units_.size(); ++u) {
      const PickleValue number{static_cast<int64_t>(u)};
      params.front().push_back(number);
      const Weight& leads = weights_[units_[u].tensors.front()];
      if (leads.kept.empty()) continue;  // it was never stepped
      PickleDict entries;
      for (const auto& [what, first] : leads.kept) {
        NXDKIT_ASSIGN(const TensorIndex index, first.shape.empty()
                                                   ? file.Add(first.layout, {})
                                                   : AddSlice(file, units_[u], what));
        entries.emplace_back(PickleValue{what}, PickleValue{index});
      }
      state.emplace_back(number, PickleValue::MakeDict(std::move(entries)));
    }
    return OkStatus();
  }

  // Adds the rank's slice of a unit's state, with zeros at the end.
  Result<TensorIndex> AddSlice(RankFile& file, const fsdp::Unit& unit,
                               const std::string& what) const {
    const int64_t each = (unit.elements + output_.world - 1) / output_.world;
    const int64_t begin = each * file.rank(), end = begin + each;
    std::vector<TensorLayout> layouts;
    std::optional<Dtype> dtype;
    int64_t first = 0;
    for (const size_t w : unit.tensors) {
      const auto kept =
          std::ranges::find(weights_[w].kept, what, &std::pair<std::string, GlobalTensor>::first);
      NXDKIT_CHECK(kept != weights_[w].kept.end());  // CheckUnit
      const GlobalTensor& tensor = kept->second;
      NXDKIT_ASSIGN(const Dtype own, file.DtypeOf(tensor.layout));
      if (dtype && *dtype != own)
        return Unsupported("a unit of FSDP1 has {} of {} and of {}", what, Name(*dtype), Name(own));
      dtype = own;
      const int64_t count = *ElementCount(tensor.shape);
      const int64_t lo = std::max(first, begin), hi = std::min(first + count, end);
      if (lo < hi)
        for (const Box& box : RangeBoxes(tensor.shape, lo - first, hi - first)) {
          TensorLayout layout = dcp::CutChunk(tensor, box);
          layout.name = tensor.layout.name;
          layouts.push_back(std::move(layout));
        }
      first += count;
    }
    const int64_t zeros = end - std::clamp(unit.elements, begin, end);
    if (zeros > 0) layouts.push_back({"padding", 0, {zeros}, dtype, {}, {{{{0}, {zeros}}, 0}}});
    return file.Join(what, *dtype, std::move(layouts));
  }

  // A rank that existed before keeps its own random numbers, byte for byte; a new one gets only the
  // schedule, which is the same for all.
  Status PlanExtraState(int rank) {
    const std::string to =
        JoinPath(folder_, fsdp::FileName(FilePart::kExtraState, output_.world, rank));
    if (facts_ && std::ranges::binary_search(facts_->set.of(FilePart::kExtraState), rank)) {
      builder_.plan.copies.push_back(
          {to, JoinPath(source_.artifact.folder,
                        fsdp::FileName(FilePart::kExtraState, facts_->set.world, rank))});
      return OkStatus();
    }
    if (schedule_.empty()) return OkStatus();
    NXDKIT_ASSIGN(std::string archive,
                  torch::EncodeObject(PickleValue::MakeDict(
                      {{{std::string("lr_scheduler")}, PickleValue::MakeDict(schedule_)}})));
    builder_.plan.texts.push_back({to, std::move(archive)});
    return OkStatus();
  }

  Status ReadSchedule() {
    std::optional<int64_t> last_epoch;
    if (source_.objects)
      for (const std::string& key : source_.objects->Keys()) {
        if (!key.starts_with(training::kScheduler)) continue;
        NXDKIT_ASSIGN(PickleValue value, source_.objects->Read(key));
        const std::string name = key.substr(training::kScheduler.size());
        if (name == "last_epoch" && value.integer()) last_epoch = *value.integer();
        schedule_.emplace_back(PickleValue{name}, std::move(value));
      }
    if (!source_.optimizer || PickleValue::MakeDict(schedule_).Find("base_lrs")) return OkStatus();
    schedule_ = training::ScheduleAt(*source_.optimizer, last_epoch.value_or(output_.last_epoch));
    return OkStatus();
  }

  Status PlanSmallFiles() {
    const std::string& from = source_.artifact.folder;
    if (output_.verl)
      builder_.plan.texts.push_back(
          {JoinPath(folder_, fsdp::kFsdpConfigFile),
           fmt::format("{{\n    \"FSDP_version\": {},\n    \"world_size\": {}\n}}", output_.fsdp,
                       output_.world)});
    if (facts_) {
      const std::string above = ParentPath(from);
      for (const char* name : {"data.pt", "dataloader.pt"})
        NXDKIT_TRY(builder_.CarryFile(above, name, JoinPath(step_folder_, name)));
    }
    NXDKIT_TRY(builder_.CarrySideFiles(JoinPath(folder_, kRunModelFolder)));
    // The tracker comes last: without it a run is not resumed.
    if (output_.verl)
      builder_.plan.texts.push_back({std::string(kStepFiles[0]), std::to_string(output_.step)});
    else
      builder_.plan.texts.push_back(
          {kRunTracker, fmt::format("{{\n  \"last_global_step\": {}\n}}", output_.step)});
    return OkStatus();
  }

  OutputBuilder& builder_;
  const BoundArtifact& source_;
  const FsdpOutput& output_;
  const fsdp::Facts* facts_;  // null: the source is of another kind
  std::string step_folder_;
  std::string folder_;
  std::vector<Weight> weights_;
  std::vector<Group> groups_;
  std::vector<fsdp::Unit> units_;  // of FSDP1; frozen ones are left out
  PickleDict schedule_;
};

}  // namespace

Status FsdpOutput::Plan(OutputBuilder& builder) const { return FsdpPlanner(builder, *this).Run(); }

}  // namespace nxdkit::kinds
