#include "formats/kinds/open.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>

#include "formats/artifact/exchanged_rows.h"
#include "formats/hf/hub_cache.h"
#include "formats/kinds/merge_lora.h"
#include "formats/kinds/quantised.h"
#include "formats/kinds/run_folder.h"
#include "formats/kinds/stranger.h"
#include "formats/kinds/table.h"
#include "formats/nxd/refuse.h"
#include "formats/training/keep_params.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/sinks/write_sink.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// A staging place of nxdkit: files have their sizes and names, but not yet their contents.
Status RefuseUnfinished(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool has_journal, look.HasFile(path, WriteSink::kJournalName));
  if (!has_journal) return OkStatus();
  return Corrupt("an unfinished output of nxd-convert, not an artifact")
      .in(path)
      .hint("run the same command again with --resume, or remove the folder");
}

// "ORG/NAME" is the model that was downloaded under this name.
Result<std::string> Located(const std::string& given) {
  if (!hf::IsHubName(given)) return hf::SnapshotInside(given);
  Result<std::string> found = hf::FindInHubCache(hf::HubKind::kModel, given);
  // "shards/step_11" next to shards/step_10 was meant as a path.
  if (!found.ok() && KindForHint(ParentPath(given)) == PathKind::kFolder)
    return NothingThere(given);
  return found;
}

std::vector<const Kind*> ByPrecedence() {
  std::vector<const Kind*> kinds(Kinds().begin(), Kinds().end());
  std::ranges::stable_sort(kinds, {}, &Kind::precedence);
  return kinds;
}

// Nothing of this kind was found: perhaps the user gave the wrong format.
Error WithKindHint(Error error, const Artifact& artifact) {
  if (error.code() != Errc::kNotFound) return error;
  const Result<const Kind*> kind = Recognise(artifact.path, artifact.look);
  if (!kind.ok()) return std::move(error).hint(kind.error().hint());
  if (*kind == artifact.kind) return error;
  if (artifact.kind != &kHf || *kind != &kNxd)
    return std::move(error).hint(fmt::format("it looks like {}", (*kind)->name));
  return std::move(error).hint(
      fmt::format("it looks like nxd: convert it first, nxd-convert --from nxd --to hf {} MODEL",
                  EscapeControl(artifact.path)));
}

std::string ValueText(const InputHints& hints, const OptionRow& row) {
  if (row.is_number()) return std::to_string(*hints.Number(row.name()));
  if (row.is_toggle()) return *hints.Toggle(row.name()) ? "on" : "off";
  return EscapeControl(*hints.Text(row.name()));
}

// `taken`: the options that this input takes.
Status CheckAgainst(std::span<const OptionRow> taken, std::string_view what,
                    const std::string& path, const InputHints& hints) {
  for (const Kind* kind : Kinds())
    for (const OptionRow& row : kind->options) {
      if ((row.sides & kAsInput) == 0 || row.misfit.empty() || !hints.Has(row.name())) continue;
      if (FindRow(taken, row.name(), kAsInput)) continue;
      return BadUsage("{}", fmt::format(fmt::runtime(row.misfit),
                                        fmt::arg("value", ValueText(hints, row)),
                                        fmt::arg("option", hints.prefix + std::string(row.name())),
                                        fmt::arg("origin", hints.origin), fmt::arg("what", what)))
          .in(path);
    }
  return OkStatus();
}

Status OpenAs(Artifact& artifact, const InputHints& hints) {
  NXDKIT_TRY(CheckHints(*artifact.kind, artifact.path, hints));
  return artifact.kind->open(artifact, hints);
}

// A weight that is not a floating point number is not this model's, whatever its shape. Carried
// tensors, and those of an optimizer or a run, may have other types.
Status CheckWeights(const BoundArtifact& artifact) {
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t) {
    const StoredTensor& stored = artifact.bound.stored[t];
    const TensorLayout& layout = artifact.bound.layout.tensors[t];
    if (layout.dtype || Info(stored.dtype).floating) continue;
    if (!layout.pieces.empty() && layout.pieces.front().param >= artifact.model->params.size())
      continue;
    return Unsupported(
               "dtype {} found; the weights of a {} model are floating point numbers of 16 bits or "
               "more",
               Name(stored.dtype), artifact.model->config.family->model_type)
        .in(stored.storage->path())
        .on(stored.name);
  }
  return OkStatus();
}

Result<Artifact> FromMemory(const std::string& name, const Kind* kind, const InputHints& hints) {
  NXDKIT_ASSIGN(Artifact artifact, hints.memory());
  if (kind && kind != artifact.kind)
    return BadUsage("it is opened as {}, and was to be read as {}", artifact.kind->name, kind->name)
        .in(name);
  NXDKIT_TRY(CheckHints(*artifact.kind, name, hints));
  return artifact;
}

}  // namespace

const Kind* KindFromName(std::string_view name) {
  const auto found = std::ranges::find(Kinds(), name, &Kind::name);
  return found == Kinds().end() ? nullptr : *found;
}

Result<const Kind*> Recognise(const std::string& asked, const Looker& look) {
  NXDKIT_ASSIGN(const std::string given, Located(asked));
  NXDKIT_ASSIGN(const RunCheckpoint found, FindCheckpoint(given, look));
  const std::string& path = found.path;
  NXDKIT_TRY(RefuseUnfinished(path, look));
  NXDKIT_ASSIGN(const PathKind is, look.KindOf(path));
  if (is == PathKind::kMissing) return NothingThere(path);
  if (is != PathKind::kFile && is != PathKind::kFolder)
    return Unsupported("neither a regular file nor a folder").in(path);
  for (const Kind* kind : ByPrecedence()) {
    Result<bool> fits = false;
    if (is == PathKind::kFile && kind->is_file) fits = kind->is_file(path);
    if (is == PathKind::kFolder && kind->is_folder) fits = kind->is_folder(path, look);
    if (!fits.ok()) return std::move(fits).error();
    if (*fits) return kind;
  }
  if (is == PathKind::kFile) return StrangeFile(path, look);
  NXDKIT_TRY(nxd::RefuseByName(path, look));
  return StrangeFolder(path, look);
}

Result<Artifact> OpenArtifact(const std::string& said, const Kind* kind, const InputHints& asked,
                              const Looker& look) {
  if (asked.memory && !(kind && kind->reads_base)) return FromMemory(said, kind, asked);
  if (!kind) NXDKIT_TRY(Recognise(said, look).To(kind));
  InputHints hints = asked;
  NXDKIT_ASSIGN(const std::string given, Located(said));
  std::optional<RunCheckpoint> named;
  if (const std::optional<std::string> tag = hints.Text("tag"))
    NXDKIT_TRY(CheckpointNamed(given, *tag, look).To(named));
  if (named) hints.Reset("tag");
  NXDKIT_ASSIGN(const RunCheckpoint checkpoint,
                named ? Result<RunCheckpoint>(*std::move(named)) : FindCheckpoint(given, look));
  Artifact artifact;
  artifact.kind = kind;
  artifact.look = look;
  if (checkpoint.choice) artifact.choices.push_back(*checkpoint.choice);
  NXDKIT_ASSIGN(artifact.path, kind->place ? kind->place(checkpoint.path, look)
                                           : Result<std::string>(checkpoint.path));
  NXDKIT_ASSIGN(const bool there, look.IsThere(artifact.path));
  if (!there) return NothingThere(artifact.path);
  NXDKIT_TRY(RefuseUnfinished(artifact.path, look));
  Status opened = OpenAs(artifact, hints);
  if (!opened.ok()) return WithKindHint(std::move(opened).error(), artifact);
  artifact.warnings.insert(artifact.warnings.begin(), checkpoint.warnings.begin(),
                           checkpoint.warnings.end());
  if (artifact.ranks.empty())
    for (const TensorFile& file : artifact.files) artifact.ranks.push_back({file.path, -1, -1});
  return artifact;
}

Result<BoundArtifact> Bind(Artifact artifact, const InputHints& hints) {
  BoundArtifact out;
  out.artifact = std::move(artifact);
  out.bound.layout.files = out.artifact.ranks;
  NXDKIT_TRY(out.artifact.kind->bind(out, hints));
  if (const auto exchanged = hints.Text(kExchangedRow.name())) {
    NXDKIT_ASSIGN(const artifact::RowExchange exchange, ParseRowExchange(*exchanged));
    NXDKIT_TRY(UndoExchange(exchange, out));
  }
  // Wrong shapes and dtypes are reported here with file and tensor, before anything is planned.
  NXDKIT_TRY(CheckBinding(out.bound));
  if (out.model) NXDKIT_TRY(CheckWeights(out));
  NXDKIT_TRY(CheckQuantised(out));
  return out;
}

Result<BoundArtifact> OpenAndBind(const std::string& path, const Kind* kind,
                                  const InputHints& hints, const Looker& look) {
  NXDKIT_ASSIGN(Artifact artifact, OpenArtifact(path, kind, hints, look));
  if (hints.lora.empty()) return Bind(std::move(artifact), hints);
  NXDKIT_ASSIGN(BoundArtifact base, Bind(std::move(artifact), hints));
  LeaveState(base, "it is of the weights before the adapter is merged");
  return MergeLora(std::move(base), hints);
}

Status CheckHints(const Kind& kind, const std::string& path, const InputHints& hints) {
  if (kind.reads_base) return OkStatus();  // the options are about the base
  return CheckAgainst(kind.options, kind.name, path, hints);
}

Status CheckNoHints(const std::string& path, const InputHints& hints) {
  return CheckAgainst({}, "no model's weights", path, hints);
}

}  // namespace nxdkit::kinds
