#include "formats/kinds/dcp/decide_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/dcp/layout.h"
#include "formats/kinds/dcp/dcp_contents.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/numbered_form.h"
#include "formats/training/run_progress.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using torch::PickleValue;

// Notes the parameters without state, which stay without it from one distributed checkpoint to
// another.
void NoteMissing(const BoundArtifact& source, DcpOutput& output) {
  // Tensors that are carried next to the model's parameters are not trained.
  const auto trained = std::span(source.optimizer->entries)
                           .first(source.optimizer->entries.size() - source.carried.size());
  const auto missing = std::ranges::count_if(trained, [](const auto& entries) { return !entries; });
  if (missing > 0)
    output.notes.push_back(
        fmt::format("{} of {} parameters have no state, and get none", missing, trained.size()));
}

std::set<std::string> OtherOptions(const BoundOptimizer& optimizer) {
  std::set<std::string> others;
  for (const torch::PickleDict& group : optimizer.groups)
    for (const auto& [key, value] : group)
      if (*key.string() != "params" && !FindAdamOption(*key.string())) others.insert(*key.string());
  return others;
}

// Notes the options that a tag's groups do not have.
void NoteDefaults(const BoundArtifact& source, DcpOutput& output) {
  const BoundOptimizer& optimizer = *source.optimizer;
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    const std::vector<std::string> unsaid = UnsaidOptions(optimizer.groups[g]);
    std::vector<size_t> params;
    for (size_t i = 0; i < optimizer.group_of.size(); ++i)
      if (optimizer.group_of[i] == g) params.push_back(i);
    if (!unsaid.empty() && !params.empty())
      output.notes.push_back(
          fmt::format("the tag does not have {} of {}: torch's defaults are written",
                      fmt::join(unsaid, ", "), NameSome(source, params)));
  }
}

// Notes for transformers.
void NoteForTransformers(const BoundOptimizer& optimizer, const RunProgress& progress,
                         DcpOutput& output) {
  output.notes.push_back(fmt::format(
      "the data loader's state has no counterpart: continue after step {}", progress.step));
  if (optimizer.groups.size() > 1)
    output.notes.push_back(
        "the optimizer has several groups (weight decay): make it with the same, in the order in "
        "which scheduler.pt has their rates");
}

// Notes for TorchTitan of 2025, whose optimizer has one group.
void NoteFor2025(const BoundOptimizer& optimizer, const RunProgress& progress, DcpOutput& output) {
  const PickleValue schedule = PickleValue::MakeDict(ScheduleAt(optimizer, progress.last_epoch));
  if (!schedule.Find("base_lrs"))
    output.notes.push_back(
        "the tag has no initial_lr, so lr_scheduler.base_lrs, which TorchTitan of 2025 asks for, "
        "is not known: leave lr_scheduler out when loading, and set its epoch by hand");
  if (optimizer.groups.size() > 1)
    output.notes.push_back(
        "the parameters have different options (weight decay), and TorchTitan of 2025 has one "
        "group: those of the first parameter become those of all");
}

// Notes for TorchTitan, and other programs that load one folder.
void NoteForTitan(const BoundOptimizer& optimizer, const RunProgress& progress, DcpOutput& output) {
  if (!progress.tokens)
    output.notes.push_back(fmt::format("{} is not known and written as 0", kTokensSeenKey));
  output.notes.push_back(
      "the data loader's state has no counterpart: leave it out when loading "
      "(exclude_from_loading)");
  if (output.style == dcp::Style::kTitan2025) return NoteFor2025(optimizer, progress, output);
  if (optimizer.groups.size() > 1)
    output.notes.push_back(
        "the parameters have different options (weight decay); TorchTitan uses those of the first "
        "parameter for each of its groups, so it must be given the same groups");
  if (output.style == dcp::Style::kTitan || output.style == dcp::Style::kTitanUnfused)
    output.notes.push_back(
        fmt::format("the learning rate of step {} is the file's; after that, TorchTitan's own "
                    "settings and schedule decide",
                    progress.step + 1));
}

// Notes for the program that will load it.
void NoteProgram(const BoundOptimizer& optimizer, const RunProgress& progress, DcpOutput& output) {
  output.notes.insert(output.notes.end(), progress.notes.begin(), progress.notes.end());
  if (output.form == DcpOutput::Form::kTransformers)
    NoteForTransformers(optimizer, progress, output);
  else
    NoteForTitan(optimizer, progress, output);
}

// Notes the entries of a run, other than its optimizer, for which transformers has no place.
void NoteLeftRun(const BoundArtifact& source, DcpOutput& output) {
  std::set<std::string> left;
  for (const RunTensor& tensor : source.run)
    left.insert(tensor.wrapper.empty() ? tensor.key : tensor.wrapper);
  for (const std::string& key : source.run_objects)
    if (!key.starts_with("optimizer.") && !key.starts_with(kScheduler) &&
        !key.starts_with("train_state.") && key != kNumberedFormKey)
      left.insert(key.substr(0, key.find('.')));
  if (!left.empty())
    output.notes.push_back(fmt::format("left behind, because transformers has no place for it: {}",
                                       fmt::join(left, ", ")));
}

// Notes for training that continues in another program than the one that saved the checkpoint.
Status NoteChange(const BoundArtifact& source, DcpOutput& output) {
  if (output.names || !source.optimizer) return OkStatus();
  NXDKIT_ASSIGN(const RunProgress progress, ProgressOfCheckpoint(source));
  NoteProgram(*source.optimizer, progress, output);
  if (output.form == DcpOutput::Form::kTransformers) NoteLeftRun(source, output);
  return OkStatus();
}

// Notes for the user of the other program.
Status NoteRun(const BoundArtifact& source, DcpOutput& output) {
  const BoundOptimizer& optimizer = *source.optimizer;
  output.notes.push_back(
      fmt::format("with the optimizer's state: {}", fmt::join(optimizer.EntryNames(), ", ")));
  const std::set<std::string> others = OtherOptions(optimizer);
  if (DcpFolderOf(source.artifact)) {
    NoteMissing(source, output);
    return NoteChange(source, output);
  }
  NoteDefaults(source, output);
  NXDKIT_ASSIGN(const RunProgress progress, ProgressOfTag(source));
  NoteProgram(optimizer, progress, output);
  if (!others.empty())
    output.notes.push_back(
        fmt::format("options that torch's AdamW does not have are kept in {}: {}", kNumberedFormKey,
                    fmt::join(others, ", ")));
  return OkStatus();
}

// The optimizer would continue from rounded weights, which are its masters: only the requested
// dtype says so.
void WarnOfRounding(const BoundArtifact& source, const OutputOptions& options, DcpOutput& output) {
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
    output.warnings.push_back(fmt::format(
        "the weights that training goes on from are rounded: {} of {} parameters, the first is {}",
        count, dtypes.size(), first));
}

// A checkpoint's keys: the prefixes of its weights' names, and of their states'.
struct FoundNames {
  dcp::Style style = dcp::Style::kHf;
  DcpOutput::Names names;
};

// Stored names: those of the weights, and those of the optimizer's state.
struct StoredNames {
  std::set<std::string> weights;
  std::set<std::string> states;

  explicit StoredNames(const dcp::Folder& folder) {
    for (const dcp::StoredEntry& entry : folder.tensors) {
      if (entry.key.starts_with(kOptimizerState))
        states.insert(
            SplitStateKey(std::string_view(entry.key).substr(kOptimizerState.size())).first);
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

// The number of a checkpoint's keys that fit a style.
struct Fit {
  size_t weights = 0;
  size_t states = 0;
  auto operator<=>(const Fit&) const = default;
};

// The style of most of a checkpoint's keys, with or without "model." before them. The names of the
// optimizer's state decide between styles that have the same names for the weights.
FoundNames NamesOf(const BoundArtifact& source) {
  FoundNames best;
  if (!DcpFolderOf(source.artifact) || !source.model) return best;
  const StoredNames keys(*DcpFolderOf(source.artifact));
  Fit most;
  for (const dcp::Style style : dcp::kStyles) {
    const auto tensors = dcp::ModelTensors(*source.model, style);
    const auto states = dcp::StateTensors(*source.model, style);
    if (!tensors.ok() || !states.ok()) continue;  // it has no such model
    const size_t plain = CountOf(*states, "", keys.states);
    const size_t after_model = CountOf(*states, std::string(kModelPrefix), keys.states);
    const std::string state_prefix(after_model > plain ? kModelPrefix : "");
    for (const auto& prefix : {std::string(), std::string(kModelPrefix)}) {
      const Fit fit = {CountOf(*tensors, prefix, keys.weights), std::max(plain, after_model)};
      if (fit.weights == 0 || fit <= most) continue;
      most = fit;
      best = {style, {prefix, state_prefix}};
    }
  }
  return best;
}

// Notes the options of parameters without state, which would need the other names.
void NoteLeftOptions(const BoundArtifact& source, DcpOutput& output) {
  std::vector<std::string> left;
  for (const std::string& key : source.run_objects)
    if (key.starts_with(kOptimizerGroups)) left.push_back(key);
  for (const RunTensor& tensor : source.run)
    if (tensor.key.starts_with(kOptimizerGroups)) left.push_back(tensor.key);
  if (!left.empty())
    output.notes.push_back(fmt::format(
        "{} options of the optimizer have other names and are left out, the first is {}",
        left.size(), left.front()));
}

// from_pretrained casts to the dtype of config.json unless given one: master weights in F32 would
// be rounded.
Status DecideLoadedDtype(const BoundArtifact& source, DcpOutput& output) {
  const Artifact& artifact = source.artifact;
  const auto is_wide = [](Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF64; };
  if (!source.optimizer || output.dtype || output.downcast) return OkStatus();
  if (std::ranges::none_of(WeightDtypes(source), is_wide)) return OkStatus();
  if (!artifact.config || artifact.config->dtype.value_or(Dtype::kF32) == Dtype::kF32)
    return OkStatus();
  output.notes.push_back(
      fmt::format("config.json says float32, not {}: the weights are the master weights",
                  Name(*artifact.config->dtype)));
  return models::WithDtype(artifact.config_text, Dtype::kF32).To(output.config_text);
}

// Whether a checkpoint of transformers stays one, because nothing else was asked for.
bool KeepsTransformers(const BoundArtifact& source, const OutputOptions& options) {
  const dcp::Folder* folder = DcpFolderOf(source.artifact);
  return folder && folder->form == dcp::FolderForm::kTransformers && source.model &&
         !options.Has("for") && !options.Has("style");
}

// The names that --style asks for, or those of the program that will load it.
std::optional<dcp::Style> StyleAskedFor(const OutputOptions& options) {
  if (const std::optional<std::string> style = options.Text("style"))
    return dcp::StyleFromName(*style);
  const std::string program = options.Text("for").value_or("");
  if (program == "transformers") return dcp::Style::kHfFused;
  return program == "torchtitan" ? std::optional(dcp::Style::kTitan) : std::nullopt;
}

}  // namespace

Result<dcp::Mesh> MeshOf(const Arguments& options) {
  if (const auto mesh = options.Text("mesh")) return dcp::ParseMesh(*mesh);
  if (const auto chunks = options.Number("chunks"))
    return dcp::ParseMesh("dp=" + std::to_string(*chunks));
  return dcp::Mesh();
}

Result<std::unique_ptr<Output>> DecideDcp(const BoundArtifact& source,
                                          const OutputOptions& options) {
  std::unique_ptr<Output> decided = std::make_unique<DcpOutput>(options);
  auto& output = static_cast<DcpOutput&>(*decided);
  WarnOfRounding(source, options, output);
  const FoundNames found = NamesOf(source);
  const bool is_dcp = DcpFolderOf(source.artifact) != nullptr;
  const bool keeps_form = KeepsTransformers(source, options);
  if (keeps_form || options.Text("for") == "transformers")
    output.form = DcpOutput::Form::kTransformers;
  const std::optional<dcp::Style> asked =
      keeps_form ? dcp::Style::kHfFused : StyleAskedFor(options);
  output.style = asked.value_or(found.style);
  if (is_dcp && (!asked || !source.model)) output.names = found.names;
  if (is_dcp && !source.optimizer && !output.names) NoteLeftOptions(source, output);
  NXDKIT_ASSIGN(output.mesh, MeshOf(options));
  const bool renames = asked && is_dcp;
  if (!source.model && (renames || output.style != dcp::Style::kHf || output.mesh.tp > 1))
    return NotFound("no config.json: the tensors alone do not determine family and roles")
        .in(source.artifact.path)
        .hint("name one with --config");
  if (source.model)
    NXDKIT_TRY(dcp::ModelTensors(*source.model, output.style).in(source.artifact.path));
  const std::string_view names = source.model ? dcp::StyleName(output.style) : "as they are";
  output.notes.push_back(
      fmt::format("names: {}, cut over dp {} tp {}", names, output.mesh.dp, output.mesh.tp));
  if (!output.names && !found.names.prefix.empty())
    output.notes.push_back(
        fmt::format("\"{}\" before the names of the weights is left out", found.names.prefix));
  if (output.form == DcpOutput::Form::kTransformers) NXDKIT_TRY(DecideLoadedDtype(source, output));
  if (source.optimizer) NXDKIT_TRY(NoteRun(source, output));
  return decided;
}

}  // namespace nxdkit::kinds
