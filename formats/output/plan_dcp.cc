#include "formats/output/plan_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/artifact/canonical.h"
#include "formats/artifact/optimizer/adam_options.h"
#include "formats/artifact/optimizer/dcp_keys.h"
#include "formats/artifact/optimizer/keep_params.h"
#include "formats/artifact/optimizer/numbered_form.h"
#include "formats/artifact/optimizer/run_progress.h"
#include "formats/dcp/encoder.h"
#include "formats/dcp/folder.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

using torch::PickleValue;

Result<std::vector<dcp::GlobalTensor>> WeightTensors(const BoundArtifact& source,
                                                     dcp::Style style) {
  if (source.model) return dcp::ModelTensors(*source.model, style);
  std::vector<dcp::GlobalTensor> tensors;
  for (TensorLayout& layout : WholeTensors(source)) {
    Shape shape = layout.shape;
    tensors.push_back({std::move(layout), std::move(shape), -1});
  }
  tensors.resize(source.model_params());
  return tensors;
}

// Whether the weights are a tag's, which its optimizer goes on from.
bool IsOfMasters(const BoundArtifact& source) { return source.optimizer && !source.artifact.dcp; }

// As they are stored, per model parameter.
std::vector<Dtype> WeightDtypes(const BoundArtifact& source) {
  std::vector<Dtype> dtypes(source.model_params(), Dtype::kF32);
  for (size_t t = 0; t < source.bound.stored.size(); ++t)
    for (const Piece& piece : source.bound.layout.tensors[t].pieces)
      if (piece.param < dtypes.size()) dtypes[piece.param] = source.bound.stored[t].dtype;
  return dtypes;
}

class Maker {
 public:
  Maker(const BoundArtifact& source, const OutputSpec& spec)
      : source_(source), spec_(spec), dtypes_(WeightDtypes(source)) {}

  Result<DcpContents> Make() {
    NXDKIT_ASSIGN(std::vector<dcp::GlobalTensor> weights, WeightTensors(source_, spec_.dcp_style));
    for (dcp::GlobalTensor weight : weights) {
      if (spec_.dcp_names) weight.layout.name.insert(0, spec_.dcp_names->prefix);
      Narrow(weight);
      AddTensor(std::move(weight));
    }
    if (spec_.dcp_names)
      for (dcp::GlobalTensor& weight : weights)
        weight.layout.name.insert(0, spec_.dcp_names->state_prefix);
    if (source_.optimizer) NXDKIT_TRY(AddState(weights));
    NXDKIT_TRY(AddRun());
    for (const dcp::GlobalTensor& tensor : out_.tensors)
      out_.metadata.tensors.push_back({tensor.layout.name, Dtype::kF32, tensor.shape, {}});
    for (const DcpObject& object : out_.objects) out_.metadata.objects.push_back({object.key, {}});
    return std::move(out_);
  }

 private:
  // Master weights, which torch has in F32 as the moments beside them.
  void Narrow(dcp::GlobalTensor& weight) const {
    if (!IsOfMasters(source_) || spec_.dtype || spec_.downcast) return;
    const std::vector<uint32_t> params = ParamsOf(weight.layout);
    if (std::ranges::any_of(params, [&](uint32_t i) { return dtypes_[i] == Dtype::kF64; }))
      weight.layout.dtype = Dtype::kF32;
  }

  void AddTensor(dcp::GlobalTensor tensor) {
    tensor.layout.name = OutputKey(tensor.layout.name);
    if (spec_.dcp_names) KeepPath(tensor.layout.name);
    out_.tensors.push_back(std::move(tensor));
  }

  // As the checkpoint stores it, where its names stay: with what programs have put around them.
  std::string OutputKey(const std::string& key) const {
    return spec_.dcp_names && source_.artifact.dcp ? dcp::StoredKey(*source_.artifact.dcp, key)
                                                   : key;
  }

  void AddArchive(const std::string& short_key, std::string archive) {
    const std::string key = OutputKey(short_key);
    if (source_.artifact.dcp) KeepPath(key);
    dcp::ObjectArchive& shared = archives_[archive];
    if (!shared) shared = std::make_shared<const std::string>(std::move(archive));
    out_.objects.push_back({key, shared});
  }

  Status AddObject(const std::string& key, const PickleValue& value) {
    Result<std::string> archive = dcp::EncodeObject(value);
    if (!archive.ok()) return std::move(archive).error().on(key);
    AddArchive(key, *std::move(archive));
    return OkStatus();
  }

  Status AddState(const std::vector<dcp::GlobalTensor>& weights) {
    std::set<uint32_t> met;  // of a tied pair the first name has the state
    for (const dcp::GlobalTensor& weight : weights) {
      const std::vector<uint32_t> params = ParamsOf(weight.layout);
      if (!met.insert(params.front()).second) continue;
      const auto has_state = [&](uint32_t i) { return source_.optimizer->entries[i].has_value(); };
      if (std::ranges::any_of(params, has_state))
        NXDKIT_TRY(AddStateOf(weight, params).on(weight.layout.name));
      else if (!source_.artifact.dcp)
        continue;
      NXDKIT_TRY(AddOptionsOf(weight.layout.name, params.front()));
    }
    return OkStatus();
  }

  // Of several parameters in one tensor the state is one too: they must have been stepped together.
  Status AddStateOf(const dcp::GlobalTensor& weight, const std::vector<uint32_t>& params) {
    const BoundOptimizer& optimizer = *source_.optimizer;
    for (const uint32_t i : params) NXDKIT_TRY(CheckAlike(params.front(), i));
    for (const OptimizerEntry& entry : *optimizer.entries[params.front()]) {
      const std::string key =
          fmt::format("{}{}.{}", kOptimizerState, weight.layout.name, entry.name);
      if (entry.kind == OptimizerEntry::Kind::kValue) {
        NXDKIT_TRY(AddObject(key, entry.value));
        continue;
      }
      dcp::GlobalTensor state = weight;
      state.layout.name = key;
      if (entry.kind == OptimizerEntry::Kind::kScalar)
        state = {WholeTensor(key, 0, entry.param, {}), {}, -1};
      else
        for (Piece& piece : state.layout.pieces)
          piece.param = optimizer.Find(piece.param, entry.name)->param;
      // torch has no F64 beside weights of F32.
      if (entry.dtype == Dtype::kF64) state.layout.dtype = Dtype::kF32;
      AddTensor(std::move(state));
    }
    return OkStatus();
  }

  Status CheckAlike(uint32_t front, uint32_t other) const {
    if (front == other) return OkStatus();
    NXDKIT_ASSIGN(const std::string difference, DifferenceOf(front, other));
    if (difference.empty()) return OkStatus();
    return Unsupported(
               "{} and {} become one parameter, but the optimizer keeps something else of each: {}",
               source_.params[front].name, source_.params[other].name, difference)
        .hint("--style hf keeps them apart");
  }

  // What the optimizer keeps of one and not so of the other; "" when it keeps the same of both.
  Result<std::string> DifferenceOf(uint32_t front, uint32_t other) const {
    const BoundOptimizer& optimizer = *source_.optimizer;
    const auto& a = optimizer.entries[front];
    const auto& b = optimizer.entries[other];
    if (!a || !b) return std::string("nothing of one of them");
    if (a->size() != b->size()) return std::string("one has fewer entries");
    if (optimizer.group_of[front] != optimizer.group_of[other]) return std::string("their groups");
    for (const OptimizerEntry& entry : *a) {
      NXDKIT_ASSIGN(const bool same, IsSame(entry, optimizer.Find(other, entry.name)));
      if (!same) return entry.name;
    }
    return std::string();
  }

  Result<bool> IsSame(const OptimizerEntry& a, const OptimizerEntry* b) const {
    if (!b || b->kind != a.kind || b->dtype != a.dtype || b->value_text != a.value_text)
      return false;
    if (a.kind != OptimizerEntry::Kind::kScalar) return true;
    NXDKIT_ASSIGN(const double x, ScalarOf(source_, a));
    NXDKIT_ASSIGN(const double y, ScalarOf(source_, *b));
    return x == y;
  }

  Status AddOptionsOf(const std::string& name, uint32_t param) {
    const BoundOptimizer& optimizer = *source_.optimizer;
    static const torch::PickleDict kNone;
    const size_t group = optimizer.group_of[param];
    if (source_.artifact.dcp) return RenameOptions(name, param);
    const torch::PickleDict& options =
        group < optimizer.groups.size() ? optimizer.groups[group] : kNone;
    for (const AdamOption& option : AdamOptions())
      NXDKIT_TRY(AddObject(fmt::format("{}{}.{}", kOptimizerGroups, name, option.name),
                           OptionOf(options, option)));
    return OkStatus();
  }

  // What a checkpoint says under another name of the parameter, and nothing that it does not say.
  Status RenameOptions(const std::string& name, uint32_t param) {
    if (spec_.dcp_names) return OkStatus();  // they are carried as they are
    for (const auto& [option, value] : source_.optimizer->options[param])
      NXDKIT_TRY(
          AddObject(fmt::format("{}{}.{}", kOptimizerGroups, name, *option.string()), value));
    return OkStatus();
  }

  Status AddSchedule(int64_t last_epoch) {
    if (spec_.dcp_style != dcp::Style::kTitan2025) return AddObject(kLastEpochKey, {last_epoch});
    for (const auto& [name, value] : ScheduleAt(*source_.optimizer, last_epoch))
      NXDKIT_TRY(AddObject(fmt::format("{}{}", kScheduler, *name.string()), value));
    return OkStatus();
  }

  // What training goes on from beside the numbers.
  Status AddRun() {
    if (source_.artifact.dcp) return CarryRun();
    if (!source_.optimizer) return OkStatus();
    NXDKIT_ASSIGN(const RunProgress progress, ProgressOfTag(source_));
    NXDKIT_TRY(AddSchedule(progress.last_epoch));
    NXDKIT_TRY(AddObject(kTrainStepKey, {progress.step}));
    NXDKIT_TRY(AddObject(kTokensSeenKey, {progress.tokens.value_or(0)}));
    return AddObject(kNumberedFormKey, WriteNumberedForm(*source_.optimizer->form));
  }

  Status CarryRun() {
    for (const RunTensor& tensor : source_.run) {
      if (IsRenamed(tensor.key)) continue;
      const Shape& shape = source_.params[tensor.param].shape;
      AddTensor({WholeTensor(tensor.key, 0, tensor.param, shape), shape, -1});
    }
    return CarryObjects();
  }

  // Options are carried under their keys only where the names of the parameters stay.
  bool IsRenamed(std::string_view key) const {
    return !spec_.dcp_names && key.starts_with(kOptimizerGroups);
  }

  // Of a checkpoint's key that stays.
  void KeepPath(const std::string& key) {
    const auto& paths = source_.artifact.dcp->metadata.paths;
    if (const auto path = paths.find(key); path != paths.end())
      out_.metadata.SetPath(key, path->second);
  }

  // From a checkpoint to a checkpoint, byte for byte.
  Status CarryObjects() {
    const dcp::Folder& folder = *source_.artifact.dcp;
    const std::set<std::string_view> carried(source_.run_objects.begin(),
                                             source_.run_objects.end());
    for (const dcp::ObjectEntry& object : folder.metadata.objects) {
      if (!carried.contains(object.key) || IsRenamed(object.key)) continue;
      NXDKIT_ASSIGN(std::string archive, dcp::ReadObject(folder, object));
      AddArchive(object.key, std::move(archive));
    }
    return OkStatus();
  }

  const BoundArtifact& source_;
  const OutputSpec& spec_;
  std::vector<Dtype> dtypes_;  // of the weights, stored
  DcpContents out_;
  // By what they hold.
  std::unordered_map<std::string, dcp::ObjectArchive> archives_;
};

// From a checkpoint to a checkpoint: what has no state stays without.
void NoteMissing(const BoundOptimizer& optimizer, OutputSpec& spec) {
  const auto missing =
      std::ranges::count_if(optimizer.entries, [](const auto& entries) { return !entries; });
  if (missing > 0)
    spec.notes.push_back(fmt::format("{} of {} parameters have no state, and get none", missing,
                                     optimizer.entries.size()));
}

std::set<std::string> OtherOptions(const BoundOptimizer& optimizer) {
  std::set<std::string> others;
  for (const torch::PickleDict& group : optimizer.groups)
    for (const auto& [key, value] : group)
      if (*key.string() != "params" && !FindAdamOption(*key.string())) others.insert(*key.string());
  return others;
}

// Of a tag: what its groups do not say.
void NoteDefaults(const BoundArtifact& source, OutputSpec& spec) {
  const BoundOptimizer& optimizer = *source.optimizer;
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    const std::vector<std::string> unsaid = UnsaidOptions(optimizer.groups[g]);
    std::vector<size_t> params;
    for (size_t i = 0; i < optimizer.group_of.size(); ++i)
      if (optimizer.group_of[i] == g) params.push_back(i);
    if (!unsaid.empty() && !params.empty())
      spec.notes.push_back(
          fmt::format("the tag does not say {} of {}: torch's defaults are written",
                      fmt::join(unsaid, ", "), NameSome(source, params)));
  }
}

// What the user of the other program has to know.
Status NoteRun(const BoundArtifact& source, OutputSpec& spec) {
  const BoundOptimizer& optimizer = *source.optimizer;
  spec.notes.push_back(
      fmt::format("with the optimizer's state: {}", fmt::join(optimizer.EntryNames(), ", ")));
  const std::set<std::string> others = OtherOptions(optimizer);
  if (source.artifact.dcp) {
    NoteMissing(optimizer, spec);
    return OkStatus();
  }
  NoteDefaults(source, spec);
  NXDKIT_ASSIGN(const RunProgress progress, ProgressOfTag(source));
  spec.notes.insert(spec.notes.end(), progress.notes.begin(), progress.notes.end());
  spec.notes.push_back(
      "the data loader's state has no counterpart: leave it out when loading "
      "(exclude_from_loading)");
  const PickleValue schedule = PickleValue::MakeDict(ScheduleAt(optimizer, progress.last_epoch));
  if (spec.dcp_style == dcp::Style::kTitan2025 && !schedule.Find("base_lrs"))
    spec.notes.push_back(
        "the tag does not say initial_lr, so lr_scheduler.base_lrs, which TorchTitan of 2025 asks "
        "for, is not known: leave lr_scheduler out when loading, and set its epoch by hand");
  if (optimizer.groups.size() > 1)
    spec.notes.push_back(
        "the parameters have different options (weight decay); TorchTitan takes those of the first "
        "parameter for each of its groups, so it has to be given the same groups");
  if (!others.empty())
    spec.notes.push_back(fmt::format("options that torch's AdamW does not have are kept in {}: {}",
                                     kNumberedFormKey, fmt::join(others, ", ")));
  return OkStatus();
}

// The optimizer would go on from rounded weights, which are its masters: nothing but the dtype that
// was asked for says so.
void WarnOfRounding(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  if (!source.optimizer) return;
  size_t count = 0;
  std::string first;
  const std::vector<Dtype> dtypes = WeightDtypes(source);
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const Dtype to = options.downcast ? Downcast(dtypes[i]) : options.dtype.value_or(dtypes[i]);
    if (!Info(dtypes[i]).floating || ElementBytes(to) >= ElementBytes(dtypes[i])) continue;
    if (count++ == 0)
      first = fmt::format("{}, from {} to {}", source.params[i].name, Name(dtypes[i]), Name(to));
  }
  if (count > 0)
    spec.warnings.push_back(
        fmt::format("the weights that training goes on from are rounded: {} of {} parameters, the "
                    "first is {}",
                    count, dtypes.size(), first));
}

// A checkpoint's keys: what is before the names of its weights, and before those of their states.
struct FoundNames {
  dcp::Style style = dcp::Style::kHf;
  OutputSpec::Names names;
};

// Names as they are stored, once of the weights and once of what the optimizer keeps of them.
struct StoredNames {
  std::set<std::string> weights;
  std::set<std::string> states;

  explicit StoredNames(const dcp::Folder& folder) {
    for (const dcp::StoredEntry& entry : folder.tensors) {
      if (entry.key.starts_with(kOptimizerState))
        states.insert(
            SplitDcpKey(std::string_view(entry.key).substr(kOptimizerState.size())).first);
      else
        weights.insert(entry.key);
    }
  }
};

size_t CountOf(const std::vector<dcp::GlobalTensor>& tensors, const std::string& prefix,
               const std::set<std::string>& keys) {
  return static_cast<size_t>(std::ranges::count_if(tensors, [&](const dcp::GlobalTensor& tensor) {
    return keys.contains(prefix + tensor.layout.name);
  }));
}

// That which most of a checkpoint's keys are of, "model." before them or not.
FoundNames NamesOf(const BoundArtifact& source) {
  FoundNames best;
  if (!source.artifact.dcp || !source.model) return best;
  const StoredNames keys(*source.artifact.dcp);
  size_t most = 0;
  for (const dcp::Style style : dcp::kStyles) {
    const auto tensors = dcp::ModelTensors(*source.model, style);
    if (!tensors.ok()) continue;  // it has no such model
    for (const auto& prefix : {std::string(), std::string(kModelPrefix)}) {
      const size_t count = CountOf(*tensors, prefix, keys.weights);
      if (count <= most) continue;
      most = count;
      const bool before_states = CountOf(*tensors, std::string(kModelPrefix), keys.states) >
                                 CountOf(*tensors, "", keys.states);
      best = {style, {prefix, std::string(before_states ? kModelPrefix : "")}};
    }
  }
  return best;
}

// Of parameters without state, which the other names would have to be given to.
void NoteLeftOptions(const BoundArtifact& source, OutputSpec& spec) {
  std::vector<std::string> left;
  for (const std::string& key : source.run_objects)
    if (key.starts_with(kOptimizerGroups)) left.push_back(key);
  for (const RunTensor& tensor : source.run)
    if (tensor.key.starts_with(kOptimizerGroups)) left.push_back(tensor.key);
  if (!left.empty())
    spec.notes.push_back(fmt::format(
        "{} options of the optimizer are of other names and are left out, the first is {}",
        left.size(), left.front()));
}

}  // namespace

Status DecideDcp(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  WarnOfRounding(source, options, spec);
  const FoundNames found = NamesOf(source);
  spec.dcp_style = options.dcp_style.value_or(found.style);
  if (source.artifact.dcp && (!options.dcp_style || !source.model)) spec.dcp_names = found.names;
  if (source.artifact.dcp && !source.optimizer && !spec.dcp_names) NoteLeftOptions(source, spec);
  spec.mesh = options.mesh;
  const bool renames = options.dcp_style && source.artifact.dcp;
  if (!source.model && (renames || spec.dcp_style != dcp::Style::kHf || spec.mesh.tp > 1))
    return NotFound("no config.json: the tensors alone do not tell family and roles")
        .in(source.artifact.path)
        .hint("name one with --config");
  if (source.model)
    NXDKIT_TRY(dcp::ModelTensors(*source.model, spec.dcp_style).in(source.artifact.path));
  const std::string_view names = source.model ? dcp::StyleName(spec.dcp_style) : "as they are";
  spec.notes.push_back(
      fmt::format("names: {}, cut over dp {} tp {}", names, spec.mesh.dp, spec.mesh.tp));
  if (!spec.dcp_names && !found.names.prefix.empty())
    spec.notes.push_back(
        fmt::format("\"{}\" before the names of the weights is left out", found.names.prefix));
  return source.optimizer ? NoteRun(source, spec) : OkStatus();
}

Result<uint64_t> LeastDcpBytes(const BoundArtifact& source, const OutputSpec& spec) {
  constexpr uint64_t kEntryBytes = 1500;  // key, place, plan and pickle; measured: 1700
  NXDKIT_ASSIGN(const auto weights, WeightTensors(source, spec.dcp_style));
  uint64_t entries = weights.size();
  if (source.artifact.dcp)
    entries = source.artifact.dcp->tensors.size() + source.run_objects.size();
  else if (source.optimizer)
    entries *= 4 + AdamOptions().size();  // moments and step beside the weight
  return entries * kEntryBytes;
}

Result<DcpContents> MakeDcpContents(const BoundArtifact& source, const OutputSpec& spec) {
  return Maker(source, spec).Make();
}

std::vector<DcpRank> CutDcp(const DcpContents& contents, const dcp::Mesh& mesh) {
  std::vector<DcpRank> ranks(static_cast<size_t>(mesh.ranks()));
  for (size_t t = 0; t < contents.tensors.size(); ++t)
    for (dcp::RankBox& part : dcp::CutOver(contents.tensors[t], mesh)) {
      TensorLayout layout = dcp::CutChunk(contents.tensors[t], part.box);
      ranks[static_cast<size_t>(part.rank)].chunks.push_back(
          {t, std::move(part.box), std::move(layout)});
    }
  return ranks;
}

}  // namespace nxdkit::ops
