#include "formats/ops/inspect/inspect.h"

#include <fmt/core.h>

#include <array>

#include "formats/kinds/options.h"
#include "formats/dcp/folder.h"
#include "formats/kinds/dcp/dcp_state.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/hf/hf.h"
#include "formats/nxd/refuse.h"
#include "formats/ops/inspect/compiled.h"
#include "formats/ops/inspect/layout.h"
#include "formats/ops/inspect/tensors.h"
#include "formats/ops/inspect/torch.h"
#include "formats/ops/inspect/training.h"
#include "formats/rollout/cpu_plan.h"
#include "formats/rollout/rollout_layout.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

constexpr std::array<std::string_view, 16> kFormNames = {
    "hf",           "safetensors",   "torch",    "torch_tree",
    "torchscript",  "nxd",           "nxd_root", "nxd_shard",
    "rollout",      "rollout_shard", "neff",     "compile_cache",
    "lora_adapter", "nxd_optimizer", "delta",    "dcp"};

// "tp3_sharded_checkpoint.safetensors" is rank 3's file.
std::optional<int> RolloutRank(const std::string& name) {
  if (!name.starts_with("tp")) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(2, name.find('_') - 2);
  const std::optional<int> rank = ParseNumber<int>(digits);
  return rank && *rank >= 0 && name == rollout::ShardFileName(*rank) ? rank : std::nullopt;
}

std::string Plural(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

Status InspectSafetensorsFile(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, &kHf, request.hints));
  inspection.rank = RolloutRank(BaseName(request.path));
  inspection.form = inspection.rank ? Form::kRolloutShard : Form::kSafetensorsFile;
  inspection.description =
      inspection.rank ? fmt::format("rank {}'s weights of a rollout bundle", *inspection.rank)
                      : "safetensors file";
  return OkStatus();
}

// Of several sets that which transformers would load is shown; whoever does more with them asks.
Result<Artifact> OpenOneSet(Inspection& inspection, const InspectRequest& request) {
  Result<Artifact> opened = OpenArtifact(request.path, &kHf, request.hints);
  const std::string folder = opened.ok() ? opened->path : opened.error().file();
  const Result<std::vector<std::string>> sets = hf::WeightSets(folder);
  if (!sets.ok() || sets->size() < 2) return opened;
  InputHints hints = request.hints;
  if (!hints.Has("weights")) {
    inspection.warnings.push_back(fmt::format(
        "{}: {} sets of weights are in the folder; {} is shown, as transformers would load it, and "
        "every other command asks which counts",
        folder, sets->size(), sets->front()));
    hints.Set("weights", sets->front());
    opened = OpenArtifact(request.path, &kHf, hints);
  }
  for (const std::string& set : *sets)
    inspection.weight_sets.push_back({set, set == BaseName(*hints.Text("weights"))});
  return opened;
}

Status InspectHfFolder(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenOneSet(inspection, request));
  inspection.form = Form::kHfFolder;
  inspection.description = "Hugging Face model folder";
  const size_t files = inspection.artifact.files.size();
  if (files > 1) inspection.description += fmt::format(", {} files and an index", files);
  return OkStatus();
}

std::string DcpDescription(dcp::FolderForm form) {
  switch (form) {
    case dcp::FolderForm::kCheckpoint:
      return "torch distributed checkpoint";
    case dcp::FolderForm::kRankLocal:
      return "torch distributed checkpoint, of each rank by itself";
    case dcp::FolderForm::kRankFiles:
      return "torch distributed checkpoint, files of ranks (torch_checkpointing)";
    case dcp::FolderForm::kSafetensors:
      return "torch distributed checkpoint, shards of safetensors";
  }
  return "";
}

Status InspectDcp(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, &kDcp, request.hints));
  inspection.form = Form::kDcpFolder;
  const dcp::Folder& folder = *DcpFolderOf(inspection.artifact);
  inspection.description = DcpDescription(folder.form);
  DcpFacts& facts = inspection.dcp.emplace();
  facts.tensors = folder.tensors.size();
  for (const dcp::StoredEntry& entry : folder.tensors) facts.chunks += entry.chunks.size();
  for (const dcp::ObjectEntry& object : folder.metadata.objects)
    facts.objects.push_back(object.key);
  return OkStatus();
}

// 0 when there is none.
Result<uint64_t> FileBytes(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  return info.kind == PathKind::kFile ? info.bytes : 0;
}

// Bytes of all files below a folder; of a link to one, that of the file.
Result<uint64_t> BytesBelow(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<TreeEntry> entries, ListTree(folder));
  uint64_t bytes = 0;
  for (const TreeEntry& entry : entries) {
    NXDKIT_ASSIGN(const uint64_t each, FileBytes(JoinPath(folder, entry.path)));
    bytes += each;
  }
  return bytes;
}

// What NxD keeps in a tag folder beside the weights.
constexpr const char* kBeside[] = {"optim", "scheduler.pt", "user_content.pt"};

bool HoldsOwnFiles(nxd::SetStyle style) {
  return style == nxd::SetStyle::kV2Xser || style == nxd::SetStyle::kV1Xser;
}

// What names tell of an NxD set.
Status DescribeSet(Inspection& inspection) {
  const nxd::SetLocation& location = NxdStateOf(inspection.artifact)->set.location;
  NxdFacts& facts = inspection.nxd.emplace();
  facts.location = location;
  facts.xser = HoldsOwnFiles(location.style);
  inspection.entries = NxdStateOf(inspection.artifact)->set.skipped;
  if (!location.has_markers) return OkStatus();
  NXDKIT_ASSIGN(facts.checkpoint, HasFile(location.tag_folder, "checkpoint"));
  for (const char* name : kBeside) {
    const std::string path = JoinPath(location.tag_folder, name);
    NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
    if (info.kind == PathKind::kMissing) continue;
    const bool folder = info.kind == PathKind::kFolder;
    NXDKIT_ASSIGN(const uint64_t bytes, folder ? BytesBelow(path) : FileBytes(path));
    facts.beside.push_back({std::string(name) + (folder ? "/" : ""), bytes});
  }
  return OkStatus();
}

Status DescribeBundle(Inspection& inspection) {
  const rollout::Bundle& bundle = *BundleOf(inspection.artifact);
  RolloutFacts& facts = inspection.rollout.emplace();
  facts.config = bundle.config;
  facts.weights = bundle.version;
  facts.first_rank = bundle.first_rank;
  facts.ranks = static_cast<int64_t>(bundle.shards.size());
  std::vector<std::string> names = bundle.blobs;
  if (bundle.has_cpu_plan) names.emplace_back(rollout::kCpuPlanFile);
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const uint64_t bytes, FileBytes(JoinPath(bundle.folder, name)));
    facts.blobs.push_back({name, bytes});
  }
  return OkStatus();
}

Status InspectBundle(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, &kRollout, request.hints));
  inspection.form = Form::kRolloutBundle;
  NXDKIT_TRY(DescribeBundle(inspection));
  NXDKIT_TRY(AddBlobs(inspection, request));
  const auto& config = inspection.rollout->config;
  if (!config)
    inspection.description = "rank shards of a rollout bundle, without neuron_config.json";
  else
    inspection.description = config->flavor == rollout::Flavor::kNxdi
                                 ? "rollout bundle of NxD Inference"
                                 : "rollout bundle of optimum-neuron";
  return OkStatus();
}

bool AnyFinished(const std::vector<nxd::TagFolder>& tags) {
  for (const nxd::TagFolder& tag : tags)
    if (tag.finished) return true;
  return false;
}

// A root with no tag asked for and none that would be read: no finished one, or none that is known
// to be the newest.
Status InspectRootAlone(Inspection& inspection, const InspectRequest& request,
                        std::vector<nxd::TagFolder> tags, const Error& error) {
  inspection.form = Form::kNxdRoot;
  inspection.description = fmt::format(
      "NxD checkpoint folder of {}, {}", Plural(tags.size(), "tag"),
      AnyFinished(tags) ? "none of them the newest for certain" : "none of them finished");
  inspection.artifact.kind = &kNxd;
  inspection.artifact.path = request.path;
  inspection.nxd.emplace().tags = std::move(tags);
  inspection.warnings.push_back(error.ToString() + "; " + error.hint());
  return OkStatus();
}

Status InspectSet(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(std::vector<nxd::TagFolder> tags, nxd::ListTags(request.path));
  const Result<nxd::SetLocation> located = nxd::Locate(request.path, request.hints.Text("tag"));
  const bool undecided =
      !located.ok() && (!AnyFinished(tags) || located.error().code() == Errc::kUsage);
  if (undecided && !tags.empty() && !request.hints.Has("tag"))
    return InspectRootAlone(inspection, request, std::move(tags), located.error());
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, &kNxd, request.hints));
  inspection.form = Form::kNxdSet;
  NXDKIT_TRY(DescribeSet(inspection));
  inspection.nxd->tags = std::move(tags);
  const std::string set = fmt::format("NxD training shard set, style {}",
                                      nxd::SetStyleName(inspection.nxd->location.style));
  inspection.description = inspection.nxd->tags.empty()
                               ? set
                               : fmt::format("NxD checkpoint folder of {}; the tag {} is an {}",
                                             Plural(inspection.nxd->tags.size(), "tag"),
                                             inspection.nxd->location.tag, set);
  return OkStatus();
}

// What holds no model's weights, and so is no Kind.
struct Special {
  Result<bool> (*is)(const std::string& path);
  Status (*inspect)(Inspection& inspection, const InspectRequest& request);
};
constexpr Special kSpecial[] = {{LooksLikeNeff, InspectNeff},
                                {neff::LooksLikeCache, InspectCache},
                                {LooksLikeAdapter, InspectAdapter},
                                {nxd::IsOptimizerFolder, InspectOptimizer},
                                {delta::LooksLikeDelta, InspectDelta}};

Status Open(Inspection& inspection, const InspectRequest& request) {
  for (const Special& special : kSpecial) {
    NXDKIT_ASSIGN(const bool is, request.kind ? Result<bool>(false) : special.is(request.path));
    if (!is) continue;
    NXDKIT_TRY(CheckNoHints(request.path, request.hints));
    return special.inspect(inspection, request);
  }
  NXDKIT_ASSIGN(const Kind* const kind,
                request.kind ? Result<const Kind*>(request.kind) : Recognise(request.path));
  if (kind == &kTorch) NXDKIT_TRY(CheckHints(*kind, request.path, request.hints));
  NXDKIT_ASSIGN(const bool folder, IsFolder(request.path));
  if (folder) NXDKIT_TRY(DescribeTrainer(inspection, request.path));
  if (kind == &kHf)
    return folder ? InspectHfFolder(inspection, request)
                  : InspectSafetensorsFile(inspection, request);
  if (kind == &kNxd) return InspectSet(inspection, request);
  if (kind == &kRollout) return InspectBundle(inspection, request);
  if (kind == &kTorch) return InspectTorchFile(inspection, request);
  if (kind == &kDcp) return InspectDcp(inspection, request);
  return OkStatus();  // a delta: above
}

}  // namespace

std::string_view FormName(Form form) { return kFormNames[static_cast<size_t>(form)]; }

std::string_view HardwareSourceName(HardwareSource source) {
  constexpr std::array<std::string_view, 6> kNames = {"unknown", "irrelevant", "options",
                                                      "sidecar", "record",     "replicas"};
  return kNames[static_cast<size_t>(source)];
}

Result<Inspection> Inspect(const InspectRequest& asked) {
  Inspection inspection;
  InspectRequest request = asked;
  request.hints.config_optional = true;  // what is there is shown
  NXDKIT_TRY(Open(inspection, request));
  const std::vector<std::string>& warnings = inspection.artifact.warnings;
  inspection.warnings.insert(inspection.warnings.end(), warnings.begin(), warnings.end());
  CountTensors(inspection);
  NXDKIT_TRY(InspectLayout(inspection, request));
  inspection.mount = MountOf(request.path);
  return inspection;
}

}  // namespace nxdkit::ops
