#include "formats/artifact/artifact.h"

#include <fmt/format.h>

#include <array>

#include "formats/artifact/check_hints.h"
#include "formats/artifact/lora/lora_peft.h"
#include "formats/artifact/open_file.h"
#include "formats/artifact/run_folder.h"
#include "formats/dcp/folder.h"
#include "formats/delta/delta.h"
#include "formats/hf/hf.h"
#include "formats/hf/hub_cache.h"
#include "formats/nxd/refuse.h"
#include "formats/rollout/weight_slots.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/sinks/write_sink.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {"hf",    "nxd",   "rollout",
                                                        "torch", "delta", "dcp"};

// A staging place of ours: files have their sizes and names, but not yet their contents.
Status RefuseUnfinished(const std::string& path) {
  NXDKIT_ASSIGN(const bool has_journal, HasFile(path, WriteSink::kJournalName));
  if (!has_journal) return OkStatus();
  return Corrupt("an unfinished output of nxd-convert, not an artifact")
      .in(path)
      .hint("run the same command again with --resume, or remove the folder");
}

// The first folder that holds a config.json.
Result<std::string> FindConfigFolder(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    NXDKIT_ASSIGN(const bool there, HasFile(folder, "config.json"));
    if (there) return folder;
  }
  return std::string();
}

// Of an NxD set, whose folders around it are looked into too: the nearest counts, but others that
// say something else are no secret.
Status NoteOtherConfigs(Artifact& artifact, const std::vector<std::string>& folders) {
  size_t others = 0;
  for (const std::string& folder : folders) {
    const std::string path = folder.empty() ? "" : JoinPath(folder, "config.json");
    if (path.empty() || path == artifact.config_path) continue;
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    if (!there) continue;
    const Result<std::string> text = ReadSmallFile(path, models::kMaxConfigBytes);
    others += !text.ok() || *text != artifact.config_text;
  }
  if (others > 0) artifact.choices.push_back({artifact.config_path, others + 1, "order"});
  return OkStatus();
}

Error WithWeightsHint(Error error, const std::string& folder, const InputHints& hints) {
  const Result<std::vector<std::string>> sets = hf::WeightSets(folder);
  if (error.code() != Errc::kUsage || !sets.ok() || sets->size() < 2) return error;
  const std::string named = hints.hf_weights_option.empty()
                                ? "name the file in the place of the folder"
                                : hints.hf_weights_option + " FILE names the one that counts";
  return std::move(error).hint(named + "; or keep one of them in the folder");
}

// transformers would load such an adapter too, into the model.
Status WarnOfAdapter(Artifact& artifact) {
  NXDKIT_ASSIGN(const std::string adapter, LoraFile(artifact.path));
  if (!adapter.empty())
    artifact.warnings.push_back(fmt::format(
        "{}: an adapter beside the weights; they are read without it (--merge-lora adds it)",
        adapter));
  return OkStatus();
}

// A folder, or in its place one of its files of weights or its index.
Status OpenHf(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_file, IsFile(artifact.path));
  const std::string folder = is_file ? ParentPath(artifact.path) : artifact.path;
  if (is_file && !hints.hf_weights.empty())
    return BadUsage("{} names a file of a folder, and this is a file", hints.hf_weights_option)
        .in(artifact.path);
  if (is_file && !hf::IsIndexName(artifact.path)) {
    NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(artifact.path));
    artifact.files.push_back(std::move(file));
    return LoadConfig(artifact, hints, {folder});
  }
  Result<hf::Checkpoint> checkpoint =
      hf::Open(folder, OpenTensorFile, is_file ? BaseName(artifact.path) : hints.hf_weights);
  if (!checkpoint.ok()) return WithWeightsHint(std::move(checkpoint).error(), folder, hints);
  if (checkpoint->choice) artifact.choices.push_back(*checkpoint->choice);
  artifact.files = std::move(checkpoint->files);
  if (!is_file) NXDKIT_TRY(WarnOfAdapter(artifact));
  return LoadConfig(artifact, hints, {folder});
}

Status OpenNxd(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(nxd::SetLocation location, nxd::Locate(artifact.path, hints.tag));
  artifact.warnings = location.warnings;
  if (location.choice) artifact.choices.push_back(*location.choice);
  NXDKIT_ASSIGN(nxd::ShardSet set, nxd::Read(std::move(location)));
  if (!set.skipped.empty())
    artifact.warnings.push_back(fmt::format("{}: left out, not tensors of the model: {}",
                                            artifact.path, fmt::join(set.skipped, ", ")));
  for (const nxd::Shard& shard : set.shards) {
    artifact.files.push_back(shard.tensors);
    artifact.ranks.push_back({shard.file.path, shard.file.tp, shard.file.pp});
  }
  NXDKIT_ASSIGN(artifact.sidecar, nxd::ReadSidecar(set.location.tag_folder));
  NXDKIT_ASSIGN(artifact.mp_record, nxd::ReadMpRecord(set.location.tag_folder, set.location.pp));
  if (artifact.mp_record)
    artifact.warnings.insert(artifact.warnings.end(), artifact.mp_record->warnings.begin(),
                             artifact.mp_record->warnings.end());
  const std::string tag = set.location.tag_folder;
  const std::string root = set.location.root;
  artifact.set = std::move(set);
  return LoadConfig(artifact, hints, {tag, root, ParentPath(root)});
}

Status OpenRollout(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(rollout::Bundle bundle,
                rollout::OpenBundle(artifact.path, OpenTensorFile, hints.weights));
  if (bundle.half_done) return rollout::HalfWritten(bundle.weights_folder);
  artifact.warnings = bundle.warnings;
  if (bundle.choice) artifact.choices.push_back(*bundle.choice);
  if (!bundle.config)
    artifact.warnings.push_back(
        fmt::format("{}: neuron_config.json is missing: no engine can load the bundle as it is",
                    artifact.path));
  artifact.files = bundle.shards;
  for (size_t i = 0; i < bundle.shards.size(); ++i)
    artifact.ranks.push_back(
        {bundle.shards[i].path, bundle.first_rank + static_cast<int64_t>(i), -1});
  artifact.bundle = std::move(bundle);
  return LoadConfig(artifact, hints, {artifact.path});
}

Status OpenTorch(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(artifact.path));
  if (is_folder)
    return Unsupported("a torch state dict is one file; this is a folder").in(artifact.path);
  NXDKIT_ASSIGN(TensorFile file, OpenStateDict(artifact.path, &artifact.warnings));
  artifact.files.push_back(std::move(file));
  return LoadConfig(artifact, hints, {ParentPath(artifact.path)});
}

Status OpenDcp(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(artifact.path));
  if (!is_folder)
    return Unsupported("a torch distributed checkpoint is a folder; this is a file")
        .in(artifact.path);
  NXDKIT_ASSIGN(dcp::Folder folder, dcp::Open(artifact.path));
  artifact.warnings = folder.warnings;
  artifact.files = folder.files;
  artifact.dcp = std::make_shared<const dcp::Folder>(std::move(folder));
  return LoadConfig(artifact, hints, {artifact.path, ParentPath(artifact.path)});
}

// Changes alone are no model: everything but the changed elements comes from the base.
Status OpenDelta(Artifact& artifact, const InputHints& hints) {
  if (hints.base.empty())
    return BadUsage("a delta holds what changed in a model; its base is not named")
        .in(artifact.path)
        .hint("nxd-convert --from delta takes it with --base");
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(artifact.path));
  if (is_folder) return Unsupported("a delta is one file; this is a folder").in(artifact.path);
  NXDKIT_ASSIGN(artifact.delta, delta::Delta::Open(artifact.path));
  NXDKIT_ASSIGN(const Kind kind, Recognise(hints.base));
  if (kind == Kind::kDelta)
    return Unsupported("the base of a delta is a delta, expected a model").in(hints.base);
  InputHints base_hints = hints;
  base_hints.base.clear();
  NXDKIT_ASSIGN(Artifact base, OpenArtifact(hints.base, kind, base_hints));
  artifact.side_folder = base.side_folder;
  artifact.config_path = base.config_path;
  artifact.config_text = base.config_text;
  artifact.config = base.config;
  artifact.warnings = base.warnings;
  artifact.choices = base.choices;
  artifact.files = base.files;
  artifact.files.push_back({artifact.path, "delta", artifact.delta->file_bytes(), {}, {}});
  artifact.ranks = base.ranks;
  artifact.ranks.push_back({artifact.path, -1, -1});
  artifact.base = std::make_shared<const Artifact>(std::move(base));
  return OkStatus();
}

// Nothing of this kind is there: perhaps the user has mistaken the format.
Error WithKindHint(Error error, const Artifact& artifact) {
  if (error.code() != Errc::kNotFound) return error;
  const Result<Kind> kind = Recognise(artifact.path);
  if (!kind.ok() || *kind == artifact.kind) return error;
  if (artifact.kind != Kind::kHf || *kind != Kind::kNxd)
    return std::move(error).hint(fmt::format("it looks like {}", KindName(*kind)));
  return std::move(error).hint(
      fmt::format("it looks like nxd: convert it first, nxd-convert --from nxd --to hf {} MODEL",
                  EscapeControl(artifact.path)));
}

// "ORG/NAME" is the model that was downloaded under this name.
Result<std::string> Located(const std::string& given) {
  if (!hf::IsHubName(given)) return given;
  return hf::FindInHubCache(hf::HubKind::kModel, given);
}

// Beside a trainer's shards lies the model as transformers takes it.
Result<std::string> HfModelIn(const std::string& path) {
  std::string inside = JoinPath(path, kRunModelFolder);
  NXDKIT_ASSIGN(const bool here, hf::HasWeights(path));
  NXDKIT_ASSIGN(const bool below, hf::HasWeights(inside));
  return !here && below ? inside : path;
}

Status OpenAs(Artifact& artifact, const InputHints& hints) {
  NXDKIT_TRY(CheckHints(artifact.kind, artifact.path, hints));
  switch (artifact.kind) {
    case Kind::kHf:
      return OpenHf(artifact, hints);
    case Kind::kNxd:
      return OpenNxd(artifact, hints);
    case Kind::kRollout:
      return OpenRollout(artifact, hints);
    case Kind::kTorch:
      return OpenTorch(artifact, hints);
    case Kind::kDelta:
      return OpenDelta(artifact, hints);
    case Kind::kDcp:
      return OpenDcp(artifact, hints);
  }
  return OkStatus();
}

}  // namespace

std::string_view KindName(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<Kind> KindFromName(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == name) return static_cast<Kind>(i);
  return std::nullopt;
}

uint64_t Artifact::file_bytes() const {
  uint64_t bytes = 0;
  for (const TensorFile& file : files) bytes += file.file_bytes;
  return bytes;
}

size_t Artifact::tensor_count() const {
  size_t count = 0;
  for (const TensorFile& file : files) count += file.tensors.size();
  return count;
}

namespace {

Result<Kind> RecogniseFile(const std::string& path) {
  if (path.ends_with(".safetensors") || hf::IsIndexName(path)) return Kind::kHf;
  constexpr std::pair<Kind, Result<bool> (*)(const std::string&)> kKinds[] = {
      {Kind::kHf, safetensors::LooksLikeSafetensors},
      {Kind::kTorch, torch::LooksLikeArchive},
      {Kind::kDelta, delta::LooksLikeDelta}};
  for (const auto& [kind, looks_like] : kKinds) {
    NXDKIT_ASSIGN(const bool found, looks_like(path));
    if (found) return kind;
  }
  return Unsupported("neither a safetensors file nor a torch archive").in(path);
}

// Weights in the folder itself count before tags in folders below: shards that were made of a model
// and put into its folder must not be taken for the model.
constexpr std::pair<Kind, Result<bool> (*)(const std::string&)> kFolderKinds[] = {
    {Kind::kRollout, rollout::LooksLikeBundle},
    {Kind::kHf, hf::HasWeights},
    {Kind::kNxd, nxd::LooksLikeShardSet},
    {Kind::kDcp, dcp::LooksLikeFolder}};

}  // namespace

Result<Kind> Recognise(const std::string& asked) {
  NXDKIT_ASSIGN(const std::string given, Located(asked));
  NXDKIT_ASSIGN(const std::string path, CheckpointIn(given));
  NXDKIT_TRY(RefuseUnfinished(path));
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kMissing) return NotFound("no such file or folder").in(path);
  if (kind == PathKind::kFile) return RecogniseFile(path);
  if (kind != PathKind::kFolder) return Unsupported("neither a regular file nor a folder").in(path);
  for (const auto& [kind_of_it, looks_like] : kFolderKinds) {
    NXDKIT_ASSIGN(const bool found, looks_like(path));
    if (found) return kind_of_it;
  }
  NXDKIT_TRY(nxd::RefuseByName(path));
  return Unsupported(
             "no artifact recognised: no rollout bundle (neuron_config.json, "
             "tp0_sharded_checkpoint.safetensors), no NxD shard set "
             "(model/dp_rank_00_tp_rank_00_pp_rank_00.pt, a tag with `done`), no Hugging Face "
             "weights (model.safetensors, model.safetensors.index.json, pytorch_model.bin), no "
             "torch distributed checkpoint (.metadata, metadata.pkl, shards of safetensors)")
      .in(path);
}

Status LoadConfig(Artifact& artifact, const InputHints& hints,
                  const std::vector<std::string>& folders) {
  if (hints.no_config) return OkStatus();
  NXDKIT_ASSIGN(artifact.side_folder, FindConfigFolder(folders));
  const bool is_nxdi = artifact.bundle && artifact.bundle->config &&
                       artifact.bundle->config->flavor == rollout::Flavor::kNxdi;
  std::optional<std::string> named = hints.config;
  if (!named && artifact.side_folder.empty() && !is_nxdi) named = hints.config_if_none;
  if (named) {
    NXDKIT_ASSIGN(const bool is_folder, IsFolder(*named));
    artifact.config_path = is_folder ? JoinPath(*named, "config.json") : *named;
    if (artifact.side_folder.empty()) artifact.side_folder = ParentPath(artifact.config_path);
  } else if (!artifact.side_folder.empty()) {
    artifact.config_path = JoinPath(artifact.side_folder, "config.json");
  } else if (is_nxdi) {
    artifact.config_path = JoinPath(artifact.bundle->folder, "neuron_config.json");
  } else {
    return OkStatus();
  }
  NXDKIT_ASSIGN(artifact.config_text, ReadSmallFile(artifact.config_path, models::kMaxConfigBytes));
  if (!named) NXDKIT_TRY(NoteOtherConfigs(artifact, folders));
  auto config = models::ParseConfig(artifact.config_text, artifact.config_path);
  if (!config.ok() && !hints.config_optional) return std::move(config).error();
  if (config.ok())
    artifact.config = *std::move(config);
  else
    artifact.config_fault = std::move(config).error();
  return OkStatus();
}

Result<Artifact> OpenArtifact(const std::string& said, Kind kind, const InputHints& asked) {
  InputHints hints = asked;
  NXDKIT_ASSIGN(const std::string given, Located(said));
  std::optional<RunCheckpoint> named;
  if (hints.tag) {
    NXDKIT_ASSIGN(named, CheckpointNamed(given, *hints.tag));
  }
  if (named) hints.tag.reset();
  NXDKIT_ASSIGN(const RunCheckpoint checkpoint,
                named ? Result<RunCheckpoint>(*std::move(named)) : FindCheckpoint(given));
  std::string path = checkpoint.path;
  if (kind == Kind::kHf) {
    NXDKIT_ASSIGN(path, HfModelIn(path));
  }
  Artifact artifact;
  artifact.kind = kind;
  if (checkpoint.choice) artifact.choices.push_back(*checkpoint.choice);
  artifact.path = path;
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return NotFound("no such file or folder").in(path);
  NXDKIT_TRY(RefuseUnfinished(path));
  Status opened = OpenAs(artifact, hints);
  if (!opened.ok()) return WithKindHint(std::move(opened).error(), artifact);
  artifact.warnings.insert(artifact.warnings.begin(), checkpoint.warnings.begin(),
                           checkpoint.warnings.end());
  if (artifact.ranks.empty())
    for (const TensorFile& file : artifact.files) artifact.ranks.push_back({file.path, -1, -1});
  return artifact;
}

}  // namespace nxdkit::ops
