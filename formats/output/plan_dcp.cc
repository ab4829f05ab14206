#include "formats/output/plan_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "formats/artifact/canonical.h"
#include "formats/artifact/optimizer/adam_options.h"
#include "formats/artifact/optimizer/bind_dcp_optimizer.h"
#include "formats/artifact/optimizer/keep_params.h"
#include "formats/artifact/optimizer/numbered_form.h"
#include "formats/dcp/encoder.h"
#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

using torch::PickleValue;

constexpr char kLastEpoch[] = "lr_scheduler.last_epoch";
constexpr char kTrainStep[] = "train_state.step";
constexpr char kTokensSeen[] = "train_state.ntokens_seen";

Result<std::vector<dcp::GlobalTensor>> WeightTensors(const BoundArtifact& source,
                                                     dcp::Style style) {
  if (source.model) return dcp::ModelTensors(*source.model, style);
  std::vector<dcp::GlobalTensor> tensors;
  for (TensorLayout& layout : WholeTensors(source)) {
    Shape shape = layout.shape;
    tensors.push_back({std::move(layout), std::move(shape), -1});
  }
  return tensors;
}

// "optimizer.state.norm.weight.step" is made of "optimizer" and the rest; a parameter is one name.
PickleValue PathOf(const std::string& key) {
  for (const std::string_view top : {"optimizer.", "lr_scheduler.", "train_state."})
    if (key.starts_with(top))
      return PickleValue::MakeTuple(
          {{std::string(top.substr(0, top.size() - 1))}, {key.substr(top.size())}});
  return PickleValue::MakeTuple({{key}});
}

class Maker {
 public:
  Maker(const BoundArtifact& source, const OutputSpec& spec) : source_(source), spec_(spec) {}

  Result<DcpContents> Make() {
    NXDKIT_ASSIGN(std::vector<dcp::GlobalTensor> weights, WeightTensors(source_, spec_.dcp_style));
    for (const dcp::GlobalTensor& weight : weights) AddTensor(weight);
    if (source_.optimizer) {
      NXDKIT_TRY(AddState(weights));
      NXDKIT_TRY(AddRun());
    }
    for (const dcp::GlobalTensor& tensor : out_.tensors)
      out_.metadata.tensors.push_back({tensor.layout.name, Dtype::kF32, tensor.shape, {}});
    for (const DcpObject& object : out_.objects) out_.metadata.objects.push_back({object.key, {}});
    return std::move(out_);
  }

 private:
  void AddTensor(dcp::GlobalTensor tensor) {
    const std::string& key = tensor.layout.name;
    out_.metadata.paths.emplace(key, PathOf(key));
    out_.tensors.push_back(std::move(tensor));
  }

  void AddArchive(const std::string& key, std::string archive, PickleValue path) {
    out_.metadata.paths.emplace(key, std::move(path));
    out_.objects.push_back({key, std::move(archive)});
  }

  Status AddObject(const std::string& key, const PickleValue& value) {
    Result<std::string> archive = dcp::EncodeObject(value);
    if (!archive.ok()) return std::move(archive).error().on(key);
    AddArchive(key, *std::move(archive), PathOf(key));
    return OkStatus();
  }

  Status AddState(const std::vector<dcp::GlobalTensor>& weights) {
    std::set<uint32_t> met;  // of a tied pair the first name has the state
    for (const dcp::GlobalTensor& weight : weights) {
      const std::vector<uint32_t> params = ParamsOf(weight.layout);
      if (!met.insert(params.front()).second) continue;
      if (!source_.optimizer->entries[params.front()]) continue;
      NXDKIT_TRY(AddStateOf(weight, params).on(weight.layout.name));
      NXDKIT_TRY(AddOptionsOf(weight.layout.name, params.front()));
    }
    return OkStatus();
  }

  // Of several parameters in one tensor the state is one too: they must have been stepped together.
  Status AddStateOf(const dcp::GlobalTensor& weight, const std::vector<uint32_t>& params) {
    const BoundOptimizer& optimizer = *source_.optimizer;
    for (const OptimizerEntry& entry : *optimizer.entries[params.front()]) {
      if (entry.kind == OptimizerEntry::Kind::kValue) continue;  // noted before
      dcp::GlobalTensor state = weight;
      state.layout.name = fmt::format("{}{}.{}", kOptimizerState, weight.layout.name, entry.name);
      for (const uint32_t i : params) NXDKIT_TRY(CheckAlike(entry, params.front(), i));
      if (entry.kind == OptimizerEntry::Kind::kScalar)
        state = {WholeTensor(state.layout.name, 0, entry.param, {}), {}, -1};
      else
        for (Piece& piece : state.layout.pieces)
          piece.param = optimizer.Find(piece.param, entry.name)->param;
      // torch has no F64 beside weights of F32.
      if (entry.dtype == Dtype::kF64) state.layout.dtype = Dtype::kF32;
      AddTensor(std::move(state));
    }
    return OkStatus();
  }

  Status CheckAlike(const OptimizerEntry& first, uint32_t front, uint32_t other) const {
    const OptimizerEntry* entry = source_.optimizer->Find(other, first.name);
    const auto differ = [&](std::string_view what) {
      return Unsupported(
                 "{} and {} become one parameter, but the optimizer keeps something else of each: "
                 "{}",
                 source_.params[front].name, source_.params[other].name, what)
          .hint("--style hf keeps them apart");
    };
    if (!entry || entry->kind != first.kind || entry->dtype != first.dtype)
      return differ(first.name);
    if (source_.optimizer->group_of[front] != source_.optimizer->group_of[other])
      return differ("their groups");
    if (first.kind != OptimizerEntry::Kind::kScalar || front == other) return OkStatus();
    NXDKIT_ASSIGN(const double a, ScalarOf(source_, first));
    NXDKIT_ASSIGN(const double b, ScalarOf(source_, *entry));
    return a == b ? OkStatus() : Status(differ(first.name));
  }

  Status AddOptionsOf(const std::string& name, uint32_t param) {
    const BoundOptimizer& optimizer = *source_.optimizer;
    static const torch::PickleDict kNone;
    const size_t group = optimizer.group_of[param];
    const torch::PickleDict& options =
        group < optimizer.groups.size() ? optimizer.groups[group] : kNone;
    for (const AdamOption& option : AdamOptions())
      NXDKIT_TRY(AddObject(fmt::format("{}{}.{}", kOptimizerGroups, name, option.name),
                           OptionOf(options, option)));
    return OkStatus();
  }

  // What training goes on from beside the numbers.
  Status AddRun() {
    if (source_.artifact.dcp) return CarryObjects();
    NXDKIT_ASSIGN(const int64_t step, StepsDone());
    NXDKIT_ASSIGN(const int64_t epoch, LastEpoch(step));
    NXDKIT_TRY(AddObject(kLastEpoch, {epoch}));
    NXDKIT_TRY(AddObject(kTrainStep, {step}));
    NXDKIT_TRY(AddObject(kTokensSeen, {int64_t{0}}));
    return AddObject(kNumberedFormKey, WriteNumberedForm(*source_.optimizer->form));
  }

  // From a checkpoint to a checkpoint: all others, byte for byte.
  Status CarryObjects() {
    const dcp::Folder& folder = *source_.artifact.dcp;
    for (const dcp::ObjectEntry& object : folder.metadata.objects) {
      if (object.key.starts_with(kOptimizerPrefix)) continue;
      NXDKIT_ASSIGN(std::string archive, dcp::ReadObject(folder, object));
      const auto path = folder.metadata.paths.find(object.key);
      AddArchive(object.key, std::move(archive),
                 path != folder.metadata.paths.end() ? path->second : PathOf(object.key));
    }
    return OkStatus();
  }

  // The most that any parameter has made.
  Result<int64_t> StepsDone() const {
    double most = 0;
    for (uint32_t i = 0; i < source_.optimizer->entries.size(); ++i)
      if (const OptimizerEntry* entry = source_.optimizer->Find(i, "step")) {
        NXDKIT_ASSIGN(const double step, ScalarOf(source_, *entry));
        most = std::max(most, step);
      }
    return static_cast<int64_t>(most);
  }

  // That of scheduler.pt, where it can be read and has one.
  Result<int64_t> LastEpoch(int64_t step) const {
    const auto& set = source_.artifact.set;
    const std::string path = set ? JoinPath(set->location.tag_folder, "scheduler.pt") : "";
    if (path.empty() || KindOf(path) != PathKind::kFile) return step;
    const Result<torch::Archive> archive = torch::ReadArchive(path);
    const PickleValue* epoch = archive.ok() ? archive->root.Find("last_epoch") : nullptr;
    return epoch && epoch->integer() ? *epoch->integer() : step;
  }

  const BoundArtifact& source_;
  const OutputSpec& spec_;
  DcpContents out_;
};

// What the user of the other program has to know.
void NoteRun(const BoundArtifact& source, OutputSpec& spec) {
  const BoundOptimizer& optimizer = *source.optimizer;
  spec.notes.push_back(
      fmt::format("with the optimizer's state: {}", fmt::join(optimizer.EntryNames(), ", ")));
  if (source.artifact.dcp) return;
  spec.notes.push_back(
      "train_state.ntokens_seen is not known and written as 0; the data loader's state has no "
      "counterpart: leave it out when loading (exclude_from_loading)");
  if (optimizer.groups.size() > 1)
    spec.notes.push_back(
        "the parameters have different options (weight decay); TorchTitan takes those of the first "
        "parameter for each of its groups, so it has to be given the same groups");
  std::set<std::string> others;
  for (const torch::PickleDict& group : optimizer.groups)
    for (const auto& [key, value] : group) {
      const std::string& name = *key.string();
      const bool known = std::ranges::find(AdamOptions(), std::string_view(name),
                                           &AdamOption::name) != AdamOptions().end();
      if (!known && name != "params") others.insert(name);
    }
  if (!others.empty())
    spec.notes.push_back(fmt::format("options that torch's AdamW does not have are kept in {}: {}",
                                     kNumberedFormKey, fmt::join(others, ", ")));
}

}  // namespace

Status DecideDcp(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  spec.dcp_style = options.dcp_style;
  spec.mesh = options.mesh;
  if (!source.model && (spec.dcp_style != dcp::Style::kHf || spec.mesh.tp > 1))
    return NotFound("no config.json: the tensors alone do not tell family and roles")
        .in(source.artifact.path)
        .hint("name one with --config");
  if (source.model)
    NXDKIT_TRY(dcp::ModelTensors(*source.model, spec.dcp_style).in(source.artifact.path));
  spec.notes.push_back(fmt::format("names: {}, cut over dp {} tp {}",
                                   dcp::StyleName(spec.dcp_style), spec.mesh.dp, spec.mesh.tp));
  if (source.optimizer) NoteRun(source, spec);
  return OkStatus();
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
