#include "formats/kinds/fsdp/decide_fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/kinds/fsdp/fsdp_state.h"
#include "formats/kinds/run_folder.h"
#include "formats/training/keep_params.h"
#include "formats/training/run_progress.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

using fsdp::OptimizerForm;

// FSDP's version, from the set's own record or from the form of its optimizer.
int VersionOf(const fsdp::Facts& facts) {
  if (facts.form == OptimizerForm::kNumbers) return 2;
  const bool says_2 = facts.set.config && facts.set.config->version == 2;
  return facts.form == OptimizerForm::kNone && says_2 ? 2 : 1;
}

OptimizerForm FormFor(const FsdpOutput& output, const fsdp::Facts* from) {
  if (!output.verl) return OptimizerForm::kNames;
  if (output.fsdp == 2) return OptimizerForm::kNumbers;
  // Cut as the source was: by parameters, if the trainer stores these separately.
  return from && from->form == OptimizerForm::kFlatParameters ? OptimizerForm::kFlatParameters
                                                              : OptimizerForm::kFlatUnits;
}

// Whether all trained parameters have the same options, as in FSDP1's one group.
bool HasOneGroup(const BoundArtifact& source) {
  if (!source.optimizer) return true;
  std::set<size_t> groups;
  const BoundOptimizer& optimizer = *source.optimizer;
  for (size_t i = 0; i < optimizer.entries.size(); ++i)
    if (optimizer.entries[i]) groups.insert(optimizer.group_of[i]);
  return groups.size() < 2;
}

void DecideTrainer(const BoundArtifact& source, const fsdp::Facts* from,
                   const OutputOptions& options, FsdpOutput& output) {
  // EasyR1 writes no fsdp_config.json, and its optimizer's state, if saved, goes by names.
  const bool from_easyr1 =
      from && !from->set.config &&
      (from->form == OptimizerForm::kNames || from->form == OptimizerForm::kNone);
  const auto trainer = options.Text("for");
  output.verl = trainer ? *trainer == "verl" : !from_easyr1;
  const bool same = from && output.verl != from_easyr1;
  // FSDP1 has one group of options; FSDP2 keeps several.
  output.fsdp = same ? VersionOf(*from) : HasOneGroup(source) ? 1 : 2;
  if (const auto version = options.Text("fsdp")) output.fsdp = *version == "2" ? 2 : 1;
  output.form = FormFor(output, same ? from : nullptr);
}

// The source's release, else the one that most programs load.
void DecideRelease(const fsdp::Facts* from, const OutputOptions& options, FsdpOutput& output) {
  if (from && from->mesh) output.release = fsdp::ReleaseOf(from->mesh->form);
  if (const auto name = options.Text("torch")) output.release = *fsdp::ReleaseFromName(*name);
  if (from && from->mesh && !from->mesh->device.empty()) output.device = from->mesh->device;
  if (const auto device = options.Text("device")) output.device = *device;
}

// The number of steps that the optimizer has taken; nullopt if it keeps no count.
Result<std::optional<int64_t>> StepsOf(const BoundArtifact& source) {
  if (!source.optimizer) return std::optional<int64_t>();
  for (const auto& entries : source.optimizer->entries)
    if (entries)
      for (const OptimizerEntry& entry : *entries)
        if (entry.name == "step" && entry.kind == OptimizerEntry::Kind::kScalar) {
          NXDKIT_ASSIGN(const double steps, training::ScalarOf(source, entry));
          const bool whole = steps >= 0 && steps <= 1e15;
          return whole ? std::optional(static_cast<int64_t>(steps)) : std::nullopt;
        }
  return std::optional<int64_t>();
}

Status DecidePlace(const BoundArtifact& source, FsdpOutput& output) {
  const std::string folder = source.artifact.folder;
  const std::string name = BaseName(folder);
  const bool is_role = name == kActorFolder || name == kCriticFolder;
  const auto step = StepOfFolder(BaseName(is_role ? ParentPath(folder) : folder));
  if (is_role) output.role = name;
  if (!is_role && source.model && source.model->config.labels > 0) output.role = kCriticFolder;
  NXDKIT_ASSIGN(const std::optional<int64_t> steps, StepsOf(source));
  output.step = output.last_epoch = steps.value_or(0);
  if (source.optimizer && !DcpFolderOf(source.artifact)) {
    NXDKIT_ASSIGN(const training::RunProgress progress, training::ProgressOfTag(source));
    output.step = progress.step;
    output.last_epoch = progress.last_epoch;
  }
  if (step) output.step = *step;
  if (!step)
    output.notes.push_back(fmt::format("the step of the run is taken for {}", output.step));
  const bool says_schedule =
      source.objects && std::ranges::any_of(source.objects->Keys(), [](const std::string& key) {
        return key == training::kLastEpochKey;
      });
  if (source.optimizer && DcpFolderOf(source.artifact) && !says_schedule)
    output.warnings.push_back(
        fmt::format("the schedule is not known: last_epoch is written as {}, the optimizer's step",
                    output.last_epoch));
  return OkStatus();
}

}  // namespace

Status CheckFsdpOptions(const Arguments& given) {
  NXDKIT_ASSIGN(const dcp::Mesh mesh, MeshOf(given));
  if (mesh.tp > 1)
    return BadUsage("--mesh dp=N alone: FSDP over tensor parallelism can be read, but not written");
  if (const auto name = given.Text("torch"); name && !fsdp::ReleaseFromName(*name))
    return BadUsage("--torch {}: releases from 2.4 to 2.15 are known", *name);
  return OkStatus();
}

Result<std::unique_ptr<Output>> DecideFsdp(const BoundArtifact& source,
                                           const OutputOptions& options) {
  std::unique_ptr<Output> decided = std::make_unique<FsdpOutput>(options);
  auto& output = static_cast<FsdpOutput&>(*decided);
  const fsdp::Facts* from = FsdpFactsOf(source.artifact);
  NXDKIT_ASSIGN(output.named, DecideDcp(source, options));
  // The names are those of the live model, without another program's wrappers.
  auto& named = static_cast<DcpOutput&>(*output.named);
  if (!from) named.names.reset();
  // Rank files have the optimizer's state under the names of the weights.
  if (named.style == dcp::Style::kTitan) named.style = dcp::Style::kTitanUnfused;
  output.warnings = output.named->warnings;
  output.world = options.Has("mesh") || !from
                     ? static_cast<const DcpOutput&>(*output.named).mesh.ranks()
                     : from->set.world;
  DecideTrainer(source, from, options, output);
  DecideRelease(from, options, output);
  NXDKIT_TRY(DecidePlace(source, output));
  if (source.optimizer && output.form == OptimizerForm::kFlatParameters)
    return Unsupported(
               "slices of parameters (use_orig_params) can be read, but not written: their "
               "alignment in FSDP1 depends on its compute dtype")
        .in(source.artifact.path)
        .hint("--for easyr1, or --fsdp 2, or --no-optimizer");
  if (from)
    output.by_divisible = std::ranges::any_of(from->tensors, [](const fsdp::ModelTensor& tensor) {
      return std::ranges::any_of(tensor.placements,
                                 [](const dtensor::Placement& one) { return one.dim > 0; });
    });
  output.notes.push_back(
      fmt::format("for {} with FSDP{} on {}, loaded by torch {} (--for, --fsdp, --mesh, --torch)",
                  output.verl ? "verl" : "EasyR1", output.fsdp, Counted(output.world, "rank"),
                  LoadedBy(output.release)));
  if (source.optimizer)
    output.notes.push_back(fmt::format("the optimizer's state: {}", fsdp::FormName(output.form)));
  return decided;
}

}  // namespace nxdkit::kinds
