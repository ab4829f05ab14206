#include "formats/ops/inspect/inspect.h"

#include <fmt/core.h>

#include <array>
#include <charconv>

#include "formats/nxd/refuse.h"
#include "formats/ops/inspect/compiled.h"
#include "formats/ops/inspect/describe.h"
#include "formats/ops/inspect/layout.h"
#include "formats/ops/inspect/tensors.h"
#include "formats/ops/inspect/torch.h"
#include "formats/ops/inspect/training.h"
#include "formats/rollout/rollout_layout.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

constexpr std::array<std::string_view, 15> kFormNames = {
    "hf",   "safetensors",   "torch",        "torch_tree",    "torchscript",
    "nxd",  "nxd_root",      "nxd_shard",    "rollout",       "rollout_shard",
    "neff", "compile_cache", "lora_adapter", "nxd_optimizer", "delta"};

// "tp3_sharded_checkpoint.safetensors" is rank 3's file.
std::optional<int> RolloutRank(const std::string& name) {
  int rank = -1;
  if (!name.starts_with("tp")) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 2, name.data() + name.size(), rank);
  if (error != std::errc() || rank < 0 || name != rollout::ShardFileName(rank)) return std::nullopt;
  return rank;
}

std::string Plural(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

Status InspectSafetensorsFile(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, Kind::kHf, request.hints));
  inspection.rank = RolloutRank(BaseName(request.path));
  inspection.form = inspection.rank ? Form::kRolloutShard : Form::kSafetensorsFile;
  inspection.description =
      inspection.rank ? fmt::format("rank {}'s weights of a rollout bundle", *inspection.rank)
                      : "safetensors file";
  return OkStatus();
}

Status InspectHfFolder(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, Kind::kHf, request.hints));
  inspection.form = Form::kHfFolder;
  inspection.description = "Hugging Face model folder";
  const size_t files = inspection.artifact.files.size();
  if (files > 1) inspection.description += fmt::format(", {} files and an index", files);
  return OkStatus();
}

Status InspectBundle(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, Kind::kRollout, request.hints));
  inspection.form = Form::kRolloutBundle;
  DescribeBundle(inspection);
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

// A root without a finished tag, and no tag asked for: there is nothing that would be read.
Status InspectUnfinishedRoot(Inspection& inspection, const InspectRequest& request,
                             std::vector<nxd::TagFolder> tags) {
  inspection.form = Form::kNxdRoot;
  inspection.description =
      fmt::format("NxD checkpoint folder of {}, none of them finished", Plural(tags.size(), "tag"));
  inspection.artifact.kind = Kind::kNxd;
  inspection.artifact.path = request.path;
  inspection.nxd.emplace().tags = std::move(tags);
  inspection.warnings.push_back(fmt::format(
      "{}: no tag has a `done` marker, so none would be read; name one with --tag", request.path));
  return OkStatus();
}

Status InspectSet(Inspection& inspection, const InspectRequest& request) {
  std::vector<nxd::TagFolder> tags = nxd::ListTags(request.path);
  if (!tags.empty() && !AnyFinished(tags) && !request.hints.tag)
    return InspectUnfinishedRoot(inspection, request, std::move(tags));
  NXDKIT_ASSIGN(inspection.artifact, OpenArtifact(request.path, Kind::kNxd, request.hints));
  inspection.form = Form::kNxdSet;
  DescribeSet(inspection);
  inspection.nxd->tags = std::move(tags);
  const std::string set =
      fmt::format("NxD training shard set, style {}", nxd::SetStyleName(inspection.nxd->style));
  inspection.description =
      inspection.nxd->tags.empty()
          ? set
          : fmt::format("NxD checkpoint folder of {}; the tag {} is an {}",
                        Plural(inspection.nxd->tags.size(), "tag"), inspection.nxd->tag, set);
  return OkStatus();
}

// What holds no model's weights, and so is no Kind.
struct Special {
  bool (*is)(const std::string& path);
  Status (*inspect)(Inspection& inspection, const InspectRequest& request);
};
constexpr Special kSpecial[] = {{LooksLikeNeff, InspectNeff},
                                {neff::LooksLikeCache, InspectCache},
                                {LooksLikeAdapter, InspectAdapter},
                                {nxd::IsOptimizerFolder, InspectOptimizer},
                                {delta::LooksLikeDelta, InspectDelta}};

Status Open(Inspection& inspection, const InspectRequest& request) {
  for (const Special& special : kSpecial)
    if (special.is(request.path)) return special.inspect(inspection, request);
  NXDKIT_ASSIGN(const Kind kind, Recognise(request.path));
  const bool folder = KindOf(request.path) == PathKind::kFolder;
  if (folder) DescribeTrainer(inspection, request.path);
  switch (kind) {
    case Kind::kHf:
      return folder ? InspectHfFolder(inspection, request)
                    : InspectSafetensorsFile(inspection, request);
    case Kind::kNxd:
      return InspectSet(inspection, request);
    case Kind::kRollout:
      return InspectBundle(inspection, request);
    case Kind::kTorch:
      return InspectTorchFile(inspection, request);
    case Kind::kDelta:
      break;  // above
  }
  return OkStatus();
}

}  // namespace

std::string_view FormName(Form form) { return kFormNames[static_cast<size_t>(form)]; }

std::string_view HardwareSourceName(HardwareSource source) {
  constexpr std::array<std::string_view, 6> kNames = {"unknown", "irrelevant", "options",
                                                      "sidecar", "record",     "replicas"};
  return kNames[static_cast<size_t>(source)];
}

Result<Inspection> Inspect(const InspectRequest& request) {
  Inspection inspection;
  NXDKIT_TRY(Open(inspection, request));
  const std::vector<std::string>& warnings = inspection.artifact.warnings;
  inspection.warnings.insert(inspection.warnings.end(), warnings.begin(), warnings.end());
  CountTensors(inspection);
  NXDKIT_TRY(InspectLayout(inspection, request));
  return inspection;
}

}  // namespace nxdkit::ops
