#include "formats/kinds/dcp/lora_dcp.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "formats/adapter/lora_config.h"
#include "formats/artifact/canonical.h"
#include "formats/artifact/computed_tensor.h"
#include "formats/dcp/layout.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/kinds/open.h"
#include "formats/kinds/peft_names.h"
#include "formats/kinds/peft_tensors.h"
#include "formats/kinds/run_folder.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"
#include "lib/base/scratch_pool.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/plan/gather.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr char kTrainMetaFile[] = "lora_train_meta.json";  // of verl, from 0.8 on
constexpr uint64_t kMaxMetaBytes = 1 << 20;
constexpr double kMaxAlpha = 1e9;
constexpr uint64_t kStagingBytes = 256 << 10;

bool IsWeight(const dcp::StoredEntry& entry) { return !entry.key.starts_with(kOptimizerPrefix); }

Result<std::optional<double>> SaidAlpha(const InputHints& hints) {
  if (!hints.lora_alpha) return std::optional<double>();
  const std::optional<double> alpha = ParseNumber<double>(*hints.lora_alpha);
  if (!alpha || !(*alpha > 0) || *alpha > kMaxAlpha)
    return BadUsage("--lora-alpha {}: expected a number above 0", *hints.lora_alpha);
  return alpha;
}

// Whole tensors, read from where their parts are.
class WholeReader {
 public:
  explicit WholeReader(std::string path) : path_(std::move(path)) {}
  WholeReader(const WholeReader&) = delete;
  WholeReader& operator=(const WholeReader&) = delete;

  void Add(const dcp::StoredEntry& entry) {
    const auto number = static_cast<uint32_t>(parts_.params.size());
    parts_.params.push_back({entry.key, entry.shape, 0, 0});
    const dcp::GlobalTensor whole{WholeTensor(entry.key, 0, number, entry.shape), entry.shape, -1};
    for (const dcp::StoredChunk& chunk : entry.chunks) {
      TensorLayout layout = dcp::CutChunk(whole, chunk.box);
      layout.file = 0;
      parts_.bound.Add(std::move(layout), chunk.stored);
    }
  }
  Status Finish() {
    parts_.bound.layout.files = {{path_, -1, -1}};
    NXDKIT_ASSIGN(plan_, PlanCanonical(parts_));
    reader_.emplace(parts_.bound, plan_);
    return OkStatus();
  }

  const std::string& path() const { return path_; }
  const std::vector<OutputTensor>& outputs() const { return plan_.outputs; }
  uint64_t bytes(size_t param) const {
    return *PackedBytes(plan_.outputs[param].dtype, plan_.outputs[param].shape);
  }
  Status Read(size_t param, uint64_t offset, std::span<std::byte> to) const {
    const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
    return reader_->Read(param, offset, to, scratch->gatherer);
  }

 private:
  struct Scratch {
    Gatherer gatherer{kStagingBytes};
  };

  std::string path_;
  BoundArtifact parts_;
  CanonicalPlan plan_;
  std::optional<CanonicalReader> reader_;
  mutable ScratchPool<Scratch> scratch_;
};

// Copies of the same box on several ranks must be equal.
Status CheckCopies(const dcp::StoredEntry& entry) {
  std::map<std::pair<Shape, Shape>, const StoredTensor*> first;
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    const auto [at, added] =
        first.emplace(std::pair{chunk.box.lo, chunk.box.extent}, &chunk.stored);
    if (added) continue;
    NXDKIT_ASSIGN(const bool equal, HoldSame(*at->second, chunk.stored));
    if (!equal)
      return Corrupt("the copy in {} differs", at->second->storage->path())
          .in(chunk.stored.storage->path())
          .on(entry.key);
  }
  return OkStatus();
}

// The adapter's tensors, whole.
Result<std::vector<StoredTensor>> AdapterTensors(const Artifact& artifact) {
  const auto reader = std::make_shared<WholeReader>(artifact.path);
  for (const dcp::StoredEntry& entry : DcpFolderOf(artifact)->tensors) {
    if (!IsWeight(entry) || !IsOfAdapter(entry.key)) continue;
    NXDKIT_TRY(CheckCopies(entry));
    reader->Add(entry);
  }
  NXDKIT_TRY(reader->Finish().in(artifact.path));
  std::vector<StoredTensor> tensors;
  const std::shared_ptr<const WholeReader> maker = reader;
  for (size_t i = 0; i < maker->outputs().size(); ++i)
    tensors.push_back(ComputedTensor(maker, i, maker->outputs()[i]));
  return tensors;
}

// The values that verl writes next to the rank files: r and lora_alpha.
struct TrainMeta {
  double alpha = 0;
  std::optional<int64_t> rank;
  std::string path;
};
Result<std::optional<TrainMeta>> FindTrainMeta(const std::vector<std::string>& folders,
                                               const Looker& look) {
  for (const std::string& folder : folders) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, kTrainMetaFile));
    if (!there) continue;
    const std::string path = JoinPath(folder, kTrainMetaFile);
    NXDKIT_ASSIGN(const Json json, ReadJsonFile(path, kMaxMetaBytes));
    const Json* const alpha = JsonFind(json, "lora_alpha");
    const double value = alpha && alpha->is_number() ? alpha->get<double>() : 0;
    if (!(value > 0) || value > kMaxAlpha)
      return Corrupt("lora_alpha is {}, expected a number above 0",
                     alpha ? JsonExcerpt(*alpha) : "not there")
          .in(path)
          .hint("give it with --lora-alpha ALPHA");
    TrainMeta meta{value, {}, path};
    if (const Json* r = JsonFind(json, "r"); r && r->is_number_integer())
      meta.rank = r->get<int64_t>();
    return std::optional(std::move(meta));
  }
  return std::optional<TrainMeta>();
}

// The rank r of each module, from its tensor A.
Result<std::map<std::string, int64_t>> RanksIn(const std::vector<StoredTensor>& tensors) {
  std::map<std::string, int64_t> ranks;
  for (const StoredTensor& stored : tensors) {
    NXDKIT_ASSIGN(const LoraName name, LoraNameOf(stored.name).on(stored.name));
    if (name.part == LoraPart::kMagnitude || name.part == LoraPart::kTokens)
      return NotFound("only {} says how DoRA, or rows of an embedding, were trained",
                      kLoraConfigFile)
          .on(stored.name);
    if (name.part != LoraPart::kA) continue;
    if (stored.shape.size() != 2)
      return Corrupt("shape {} found, expected a matrix", ShapeText(stored.shape)).on(stored.name);
    ranks[ModuleOf(name.target)] = stored.shape[0];
  }
  return ranks;
}

// A configuration made from the tensors, where PEFT's is missing.
Result<lora::Config> ConfigOf(const std::vector<StoredTensor>& tensors, double alpha) {
  NXDKIT_ASSIGN(const auto ranks, RanksIn(tensors));
  lora::Config config;
  config.alpha = alpha;
  config.task_type = "CAUSAL_LM";
  for (const StoredTensor& stored : tensors) {
    NXDKIT_ASSIGN(const LoraName name, LoraNameOf(stored.name).on(stored.name));
    const std::string module = ModuleOf(name.target);
    if (name.part == LoraPart::kWhole && !module.empty()) config.modules_to_save.push_back(module);
  }
  for (const auto& [module, rank] : ranks) {
    if (config.rank == 0) config.rank = rank;
    config.targets.push_back(module);
    if (rank == config.rank) continue;
    NXDKIT_ASSIGN(lora::ModulePattern pattern, lora::ModulePattern::Compile(module));
    config.rank_pattern.emplace_back(std::move(pattern), rank);
  }
  return config;
}

std::vector<std::string> FoldersOf(const Artifact& artifact) {
  const std::string& path = artifact.path;
  return {path, JoinPath(path, "lora_adapter"), JoinPath(path, kRunModelFolder), ParentPath(path)};
}

Result<LoraConfigFile> ConfigFor(const Artifact& artifact, const InputHints& hints,
                                 const std::vector<StoredTensor>& tensors) {
  const std::vector<std::string> folders = FoldersOf(artifact);
  NXDKIT_ASSIGN(std::optional<double> alpha, SaidAlpha(hints));
  Result<LoraConfigFile> found = FindLoraConfig("", folders);
  if (!found.ok() && found.error().code() != Errc::kNotFound) return found;
  if (found.ok()) {
    if (!alpha || *alpha == found->config.alpha) return found;
    return BadUsage("--lora-alpha {} was given, but {} says {}", *alpha, found->path,
                    found->config.alpha);
  }
  std::string path = "--lora-alpha";
  std::optional<TrainMeta> meta;
  if (!alpha) NXDKIT_TRY(FindTrainMeta(folders, artifact.look).To(meta));
  if (meta) {
    alpha = meta->alpha;
    path = meta->path;
  }
  if (!alpha)
    return BadUsage("lora_alpha of the adapter is not known: neither {} nor {} is there",
                    kLoraConfigFile, kTrainMetaFile)
        .in(artifact.path)
        .hint("--lora-alpha ALPHA, as the run's configuration has it");
  NXDKIT_ASSIGN(lora::Config config, ConfigOf(tensors, *alpha).in(artifact.path));
  if (meta && meta->rank && *meta->rank != config.rank)
    return Corrupt("r is {}, and the adapter's tensors have {}", *meta->rank, config.rank).in(path);
  return LoraConfigFile{std::move(config), std::move(path)};
}

// The first file that has a part of the adapter.
std::string FirstFile(const Artifact& artifact) {
  for (const dcp::StoredEntry& entry : DcpFolderOf(artifact)->tensors)
    if (IsWeight(entry) && IsOfAdapter(entry.key) && !entry.chunks.empty())
      return entry.chunks.front().stored.storage->path();
  return artifact.path;
}

struct LoraKeys {
  bool any = false;        // there is an adapter
  bool with_base = false;  // there are weights of its base
};
LoraKeys FindLoraKeys(const dcp::Folder& folder) {
  LoraKeys keys;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    if (!IsWeight(entry)) continue;
    const bool adapter = IsOfAdapter(entry.key);
    keys.any |= adapter;
    keys.with_base |= !adapter;
  }
  return keys;
}

}  // namespace

// The adapter's pairs, and the modules that modules_to_save trains whole.
bool IsOfAdapter(std::string_view key) {
  const Result<LoraName> name = LoraNameOf(key);
  if (!name.ok()) return true;  // an unknown part: an error when the adapter is read
  if (name->part == LoraPart::kOriginal) return false;
  return name->part != LoraPart::kWhole || key.find(".modules_to_save.") != std::string_view::npos;
}

bool HasLora(const Artifact& artifact) { return FindLoraKeys(*DcpFolderOf(artifact)).any; }

LoraTake LoraTakeOf(const Artifact& artifact, const InputHints& hints) {
  static constexpr std::string_view kNames[] = {"stored", "merged", "adapter", "base"};
  const LoraKeys keys = FindLoraKeys(*DcpFolderOf(artifact));
  if (!keys.any) return LoraTake::kStored;
  if (const std::optional<std::string> said = hints.Text(kLoraTakeRow.names))
    return static_cast<LoraTake>(std::ranges::find(kNames, *said) - kNames);
  if (!keys.with_base) return LoraTake::kAdapter;
  // For inspection the base is enough: the adapter's scale may not be known.
  return hints.partial ? LoraTake::kBase : LoraTake::kMerged;
}

Status CheckLoraTake(const Artifact& artifact, const InputHints& hints) {
  const LoraKeys keys = FindLoraKeys(*DcpFolderOf(artifact));
  const std::optional<std::string> said = hints.Text(kLoraTakeRow.names);
  const bool needs_adapter = said == "merged" || said == "adapter" || said == "base";
  if (!keys.any && needs_adapter)
    return BadUsage("--lora {}: no LoRA adapter is in the checkpoint", *said).in(artifact.path);
  if (!keys.any && hints.lora_alpha && hints.lora.empty())
    return BadUsage("--lora-alpha: no LoRA adapter is in the checkpoint").in(artifact.path);
  if (keys.any && !keys.with_base && (said == "merged" || said == "base"))
    return BadUsage("--lora {}: the base was not saved, only the adapter", *said)
        .in(artifact.path)
        .hint("--merge-lora merges the adapter into a given base");
  return OkStatus();
}

void KeepBase(Artifact& artifact, const InputHints& hints) {
  auto folder = std::make_shared<dcp::Folder>(*DcpFolderOf(artifact));
  const auto of_adapter = [](const auto& entry) { return entry.key.starts_with(kOptimizerPrefix); };
  const bool any_state = std::ranges::any_of(folder->tensors, of_adapter);
  std::erase_if(folder->tensors, [&](const dcp::StoredEntry& entry) {
    return of_adapter(entry) || IsOfAdapter(entry.key);
  });
  std::erase_if(folder->metadata.objects, of_adapter);
  for (dcp::StoredEntry& entry : folder->tensors) {
    Result<LoraName> name = LoraNameOf(entry.key);
    if (!name.ok() || name->target == entry.key) continue;
    folder->stored_keys.emplace(name->target, entry.key);
    entry.key = std::move(name->target);
  }
  if (any_state && hints.optimizer)
    artifact.warnings.push_back(
        "the optimizer's state is left out: it is the adapter's, and --lora stored keeps both");
  ReplaceFolder(artifact, std::move(folder));
}

Status BindLoraOf(BoundArtifact& out, const Artifact& artifact, const LoraBase& base,
                  nxd::LoraSharing sharing, const InputHints& hints) {
  if (!HasLora(artifact))
    return Unsupported("no LoRA adapter is in the checkpoint").in(artifact.path);
  NXDKIT_ASSIGN(std::vector<StoredTensor> tensors, AdapterTensors(artifact));
  NXDKIT_ASSIGN(LoraConfigFile config, ConfigFor(artifact, hints, tensors));
  if (!out.lora) out.lora.emplace();
  out.lora->config = std::move(config.config);
  out.lora->config_path = std::move(config.path);
  out.artifact.kind = artifact.kind;
  out.artifact.path = artifact.path;
  out.artifact.folder = artifact.folder;
  out.artifact.look = artifact.look;
  TensorFile& file = out.artifact.files.emplace_back();
  file.path = FirstFile(artifact);
  for (const TensorFile& part : artifact.files) file.file_bytes += part.file_bytes;
  file.tensors = std::move(tensors);
  out.artifact.ranks.push_back({artifact.path, -1, -1});
  return BindPeftTensors(out, base, sharing);
}

bool HoldsLoraDcp(const Artifact& artifact, const InputHints& hints) {
  return LoraTakeOf(artifact, hints) == LoraTake::kAdapter;
}

Result<std::vector<std::string>> LoraFoldersDcp(const std::string& path, const InputHints& hints,
                                                const Looker& look) {
  NXDKIT_ASSIGN(const Artifact artifact, OpenArtifact(path, nullptr, hints, look));
  return FoldersOf(artifact);
}

Status BindLoraDcp(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints) {
  NXDKIT_ASSIGN(const Artifact artifact,
                OpenArtifact(out.artifact.path, out.artifact.kind, hints, out.artifact.look));
  out.artifact.warnings = artifact.warnings;
  out.artifact.choices = artifact.choices;
  return BindLoraOf(out, artifact, base, sharing, hints);
}

}  // namespace nxdkit::kinds
