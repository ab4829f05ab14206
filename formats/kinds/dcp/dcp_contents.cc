#include "formats/kinds/dcp/dcp_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/artifact/canonical.h"
#include "formats/dcp/titan.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/torch/encoder.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/numbered_form.h"
#include "formats/training/run_progress.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using torch::PickleValue;

// Each parameter as a tensor, for models without a table.
std::vector<dcp::GlobalTensor> OwnTensors(const BoundArtifact& source) {
  std::vector<dcp::GlobalTensor> tensors;
  for (TensorLayout& layout : WholeTensors(source)) {
    Shape shape = layout.shape;
    tensors.push_back({std::move(layout), std::move(shape), -1});
  }
  tensors.resize(source.model_params());
  return tensors;
}

// The tensors under the optimizer's names.
Result<std::vector<dcp::GlobalTensor>> StateTensors(const BoundArtifact& source, dcp::Style style) {
  if (source.model) return dcp::StateTensors(*source.model, style);
  return OwnTensors(source);
}

// Whether the weights come from a tag, as the masters that its optimizer continues from.
bool IsOfMasters(const BoundArtifact& source) {
  return source.optimizer && !DcpFolderOf(source.artifact);
}

// Whether TorchTitan's names were asked for, rather than kept.
bool IsForTitan(const DcpOutput& output) {
  return !output.names && output.style != dcp::Style::kHf && output.style != dcp::Style::kHfFused;
}

bool NeedsAllOptions(const DcpOutput& output) {
  return IsForTitan(output) || output.form == DcpOutput::Form::kTransformers;
}

class DcpMaker {
 public:
  DcpMaker(const BoundArtifact& source, const DcpOutput& output)
      : source_(source), output_(output), dtypes_(WeightDtypes(source)) {}

  Result<DcpContents> Make() {
    NXDKIT_ASSIGN(std::vector<dcp::GlobalTensor> weights, WeightTensors(source_, output_.style));
    for (dcp::GlobalTensor& weight : weights) {
      if (output_.names) weight.layout.name.insert(0, output_.names->prefix);
      Narrow(weight);
      AddTensor(std::move(weight));
    }
    NXDKIT_TRY(AddBuffers());
    out_.weights = out_.tensors.size();
    if (source_.optimizer) NXDKIT_TRY(AddState());
    NXDKIT_TRY(AddRun());
    for (const dcp::GlobalTensor& tensor : out_.tensors)
      out_.metadata.tensors.push_back({tensor.layout.name, Dtype::kF32, tensor.shape, {}});
    for (const DcpObject& object : out_.objects) out_.metadata.objects.push_back({object.key, {}});
    return std::move(out_);
  }

 private:
  // Narrows master weights, which torch has in F32 like the moments, to F32.
  void Narrow(dcp::GlobalTensor& weight) const {
    if (!IsOfMasters(source_) || output_.dtype || output_.downcast) return;
    const std::vector<uint32_t> params = ParamsOf(weight.layout);
    if (std::ranges::any_of(params, [&](uint32_t i) { return dtypes_[i] == Dtype::kF64; }))
      weight.layout.dtype = Dtype::kF32;
  }

  void AddTensor(dcp::GlobalTensor tensor) {
    tensor.layout.name = OutputKey(tensor.layout.name);
    if (output_.names) KeepPath(tensor.layout.name);
    out_.tensors.push_back(std::move(tensor));
  }

  // The key in the checkpoint, if its names are kept: with the wrappers that programs put around
  // it.
  std::string OutputKey(const std::string& key) const {
    return output_.names && DcpFolderOf(source_.artifact)
               ? dcp::StoredKey(*DcpFolderOf(source_.artifact), key)
               : key;
  }

  void AddArchive(const std::string& short_key, std::string archive) {
    const std::string key = OutputKey(short_key);
    if (DcpFolderOf(source_.artifact)) KeepPath(key);
    dcp::ObjectArchive& shared = archives_[archive];
    if (!shared) shared = std::make_shared<const std::string>(std::move(archive));
    out_.objects.push_back({key, shared});
  }

  Status AddObject(const std::string& key, const PickleValue& value) {
    Result<std::string> archive = torch::EncodeObject(value);
    if (!archive.ok()) return std::move(archive).error().on(key);
    AddArchive(key, *std::move(archive));
    return OkStatus();
  }

  // The buffers that only TorchTitan's model asks for. One that is not zero comes from the source,
  // and is copied under the new name; where names are kept, a missing one stays missing.
  Status AddBuffers() {
    if (!source_.model) return OkStatus();
    for (TensorLayout& buffer : dcp::TitanBuffers(*source_.model, output_.style)) {
      if (output_.names) buffer.name.insert(0, output_.names->prefix);
      NXDKIT_TRY(AddBuffer(std::move(buffer)));
    }
    return OkStatus();
  }

  Status AddBuffer(TensorLayout buffer) {
    const std::string layer = buffer.name.substr(0, buffer.name.rfind('.') + 1);
    const auto is_it = [&](std::string_view key) {
      return dcp::IsTitanBuffer(key) && key.find(layer) != std::string_view::npos;
    };
    Shape shape = buffer.shape;
    for (const RunTensor& tensor : source_.run) {
      if (!is_it(tensor.key)) continue;
      if (tensor.key == buffer.name) return OkStatus();
      renamed_.insert(tensor.key);
      AddTensor({WholeTensor(buffer.name, 0, tensor.param, shape), shape, -1});
      return OkStatus();
    }
    const dcp::Folder* folder = DcpFolderOf(source_.artifact);
    const auto had = [&](const dcp::StoredEntry& entry) { return is_it(entry.key); };
    const bool is_there = folder && std::ranges::any_of(folder->tensors, had);
    if (is_there) NXDKIT_TRY(CheckIdle(*std::ranges::find_if(folder->tensors, had)));
    if (is_there || !output_.names) AddTensor({std::move(buffer), std::move(shape), -1});
    return OkStatus();
  }

  Status CheckIdle(const dcp::StoredEntry& buffer) const {
    NXDKIT_ASSIGN(const bool zeros, IsAllZeros(buffer));
    if (zeros) return OkStatus();
    return Unsupported("a bias of the router that is not zero goes along with the optimizer")
        .in(source_.artifact.path)
        .on(buffer.key)
        .hint("leave --no-optimizer out");
  }

  Status AddState() {
    NXDKIT_ASSIGN(std::vector<dcp::GlobalTensor> weights, StateTensors(source_, output_.style));
    std::set<uint32_t> met;  // the state of a tied pair is under its first name
    for (dcp::GlobalTensor& weight : weights) {
      if (output_.names) weight.layout.name.insert(0, output_.names->state_prefix);
      const std::vector<uint32_t> params = ParamsOf(weight.layout);
      if (!met.insert(params.front()).second) continue;
      const auto has_state = [&](uint32_t i) { return source_.optimizer->entries[i].has_value(); };
      if (std::ranges::any_of(params, has_state))
        NXDKIT_TRY(AddStateOf(weight, params).on(weight.layout.name));
      else if (!DcpFolderOf(source_.artifact))
        continue;
      NXDKIT_TRY(AddOptionsOf(weight.layout.name, params.front()));
    }
    return OkStatus();
  }

  // Several parameters in one tensor have one state: they must have had the same steps.
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
      // torch has no F64 next to weights in F32.
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
        .hint(output_.style == dcp::Style::kTitan
                  ? "--style torchtitan-unfused keeps them apart, for a model made with "
                    "fuse_qkv=False; so does --style hf"
                  : "--style hf keeps them apart");
  }

  // The first entry in which the optimizer's states of the two differ; "" if all are the same.
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
    if (DcpFolderOf(source_.artifact)) return RenameOptions(name, param);
    const torch::PickleDict& options =
        group < optimizer.groups.size() ? optimizer.groups[group] : kNone;
    for (const AdamOption& option : AdamOptions())
      NXDKIT_TRY(AddObject(fmt::format("{}{}.{}", kOptimizerGroups, name, option.name),
                           OptionOf(options, option)));
    return OkStatus();
  }

  // Renames the options in a checkpoint; and, for programs that load nothing if one is missing,
  // adds the defaults of the options that it does not have.
  Status RenameOptions(const std::string& name, uint32_t param) {
    if (output_.names) return OkStatus();  // carried as they are
    torch::PickleDict options = source_.optimizer->options[param];
    const torch::PickleDict said = options;
    if (NeedsAllOptions(output_) && !said.empty())
      for (const AdamOption& option : AdamOptions())
        if (!SaidIn(said, option.name))
          options.push_back({{std::string(option.name)}, OptionOf(said, option)});
    for (const auto& [option, value] : options)
      NXDKIT_TRY(
          AddObject(fmt::format("{}{}.{}", kOptimizerGroups, name, *option.string()), value));
    return OkStatus();
  }

  std::optional<size_t> FirstGroup() const {
    const BoundOptimizer& optimizer = *source_.optimizer;
    const bool has = !optimizer.group_of.empty() && optimizer.group_of[0] < optimizer.groups.size();
    return has ? std::optional(optimizer.group_of[0]) : std::nullopt;
  }

  Status AddSchedule(int64_t last_epoch) {
    if (output_.style != dcp::Style::kTitan2025) return AddIfNone(kLastEpochKey, {last_epoch});
    // One group has all parameters: the first one's.
    for (const auto& [name, value] : ScheduleAt(*source_.optimizer, last_epoch, FirstGroup()))
      NXDKIT_TRY(AddIfNone(fmt::format("{}{}", kScheduler, *name.string()), value));
    return OkStatus();
  }

  // The counts that training continues from. transformers has them in files of its own.
  Status AddRun() {
    const bool has_files = output_.form == DcpOutput::Form::kTransformers;
    if (DcpFolderOf(source_.artifact)) return has_files ? CarryRecord() : CarryRun();
    if (!source_.optimizer) return OkStatus();
    if (!has_files) {
      NXDKIT_ASSIGN(const RunProgress progress, ProgressOfTag(source_));
      NXDKIT_TRY(AddProgress(progress));
    }
    return AddObject(kNumberedFormKey, WriteNumberedForm(*source_.optimizer->form));
  }

  Status AddProgress(const RunProgress& progress) {
    NXDKIT_TRY(AddSchedule(progress.last_epoch));
    NXDKIT_TRY(AddIfNone(kTrainStepKey, {progress.step}));
    return AddIfNone(kTokensSeenKey, {progress.tokens.value_or(0)});
  }

  Status AddIfNone(const std::string& key, const PickleValue& value) {
    const auto is_it = [&](const DcpObject& object) { return object.key == key; };
    return std::ranges::any_of(out_.objects, is_it) ? OkStatus() : AddObject(key, value);
  }

  Status CarryRecord() {
    const dcp::Folder& folder = *DcpFolderOf(source_.artifact);
    for (const dcp::ObjectEntry& object : folder.metadata.objects) {
      if (object.key != kNumberedFormKey || !source_.optimizer) continue;
      NXDKIT_ASSIGN(std::string archive, dcp::ReadObject(folder, object));
      AddArchive(object.key, std::move(archive));
    }
    return OkStatus();
  }

  // TorchTitan loads nothing if a key of the run is missing, as in the checkpoints of other
  // programs.
  Status CarryRun() {
    NXDKIT_TRY(CarryAll());
    if (!IsForTitan(output_) || !source_.optimizer) return OkStatus();
    NXDKIT_ASSIGN(const RunProgress progress, ProgressOfCheckpoint(source_));
    return AddProgress(progress);
  }

  Status CarryAll() {
    for (const RunTensor& tensor : source_.run) {
      if (IsRenamed(tensor.key) || renamed_.contains(tensor.key)) continue;
      const Shape& shape = source_.params[tensor.param].shape;
      AddTensor({WholeTensor(tensor.key, 0, tensor.param, shape), shape, -1});
    }
    return CarryObjects();
  }

  // Options are carried under their keys only where the names of the parameters are kept.
  bool IsRenamed(std::string_view key) const {
    return !output_.names && key.starts_with(kOptimizerGroups);
  }

  // Keeps the path of a checkpoint's key that does not change.
  void KeepPath(const std::string& key) {
    const auto& paths = DcpFolderOf(source_.artifact)->metadata.paths;
    if (const auto path = paths.find(key); path != paths.end())
      out_.metadata.SetPath(key, path->second);
  }

  // From one distributed checkpoint to another, byte for byte.
  Status CarryObjects() {
    const dcp::Folder& folder = *DcpFolderOf(source_.artifact);
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
  const DcpOutput& output_;
  std::vector<Dtype> dtypes_;  // of the weights, stored
  DcpContents out_;
  std::set<std::string> renamed_;  // keys of the run written under other names
  // Archives by contents.
  std::unordered_map<std::string, dcp::ObjectArchive> archives_;
};

}  // namespace

Result<std::vector<dcp::GlobalTensor>> WeightTensors(const BoundArtifact& source,
                                                     dcp::Style style) {
  if (source.model) return dcp::ModelTensors(*source.model, style);
  return OwnTensors(source);
}

Result<DcpContents> MakeDcpContents(const BoundArtifact& source, const DcpOutput& output) {
  return DcpMaker(source, output).Make();
}

std::vector<Dtype> WeightDtypes(const BoundArtifact& source) {
  std::vector<Dtype> dtypes(source.model_params(), Dtype::kF32);
  for (size_t t = 0; t < source.bound.stored.size(); ++t)
    for (const Piece& piece : source.bound.layout.tensors[t].pieces)
      if (piece.param < dtypes.size()) dtypes[piece.param] = source.bound.stored[t].dtype;
  return dtypes;
}

}  // namespace nxdkit::kinds
