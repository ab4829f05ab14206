#include "formats/artifact/lora/lora.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/artifact/lora/lora_config.h"
#include "formats/artifact/lora/lora_parts.h"
#include "formats/hf/hf.h"
#include "formats/nxd/shard_set.h"
#include "formats/torch/archive.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {

size_t LoraParts::pair_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(pairs, [](const auto& pair) { return pair.has_value(); }));
}

size_t LoraParts::whole_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(wholes, [](const auto& whole) { return whole.has_value(); }));
}

std::string LoraFile(const std::string& folder) {
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"})
    if (std::string path = JoinPath(folder, name); KindOf(path) == PathKind::kFile) return path;
  return "";
}

bool LooksLikePeft(const std::string& path) {
  if (KindOf(path) == PathKind::kFile) return BaseName(path).starts_with("adapter_model.");
  return !LoraFile(path).empty() && !hf::HasWeights(path);
}

bool HoldsLora(const Artifact& set) {
  return !set.files.empty() &&
         std::ranges::any_of(set.files.front().tensors, [](const StoredTensor& stored) {
           return stored.name.find(".lora_") != std::string::npos;
         });
}

std::string ModuleOf(const std::string& weight) {
  constexpr std::string_view kEnd = ".weight";
  if (!weight.ends_with(kEnd)) return "";
  return weight.substr(0, weight.size() - kEnd.size());
}

LoraNumbering::LoraNumbering(const LoraBase& base, BoundArtifact& out, nxd::LoraSharing sharing)
    : base_(base), out_(out), sharing_(sharing) {
  out.lora->pairs.assign(base.params->size(), std::nullopt);
  out.lora->wholes.assign(base.params->size(), std::nullopt);
  out.lora->sharing = sharing;
}

Status LoraNumbering::AddPair(uint32_t target) {
  const LogicalTensor& param = (*base_.params)[target];
  const std::string own = ModuleOf(param.name);
  std::optional<std::string> shared;
  if (base_.model) shared = nxd::LoraModule(base_.model->params[target], sharing_);
  const std::string module = shared.value_or(own);
  const lora::Config& config = out_.lora->config;
  const int64_t rank = config.RankOf(own);
  const auto number = [&](const std::string& name, Shape shape) {
    out_.params.push_back({name, std::move(shape), 0, 0});
    return static_cast<uint32_t>(out_.params.size() - 1);
  };
  auto it = modules_.find(module);
  if (it == modules_.end()) {
    const uint32_t a = number(module + ".lora_A.weight", {rank, param.shape[1]});
    it = modules_.emplace(module, Module{a, target}).first;
  }
  const std::string first = ModuleOf((*base_.params)[it->second.target].name);
  if (config.RankOf(first) != rank || config.ScaleOf(first) != config.ScaleOf(own))
    return Error(Errc::kUnsupported,
                 fmt::format("rank {} and scale {} here, {} and {} of {}: {} has one adapter", rank,
                             config.ScaleOf(own), config.RankOf(first), config.ScaleOf(first),
                             first, module))
        .in(out_.lora->config_path)
        .on(own);
  const uint32_t b = number(own + ".lora_B.weight", {param.shape[0], rank});
  out_.lora->pairs[target] = nxd::LoraPair{it->second.a, b, rank};
  return OkStatus();
}

uint32_t LoraNumbering::AddWhole(uint32_t target) {
  const LogicalTensor& param = (*base_.params)[target];
  const auto number = static_cast<uint32_t>(out_.params.size());
  out_.params.push_back(param);
  out_.lora->wholes[target] = number;
  return number;
}

Result<BoundArtifact> BindLora(const std::string& path, const LoraBase& base,
                               nxd::LoraSharing sharing, const InputHints& hints) {
  if (KindOf(path) == PathKind::kMissing)
    return Error(Errc::kNotFound, "no such file or folder").in(path);
  BoundArtifact out;
  out.artifact.path = path;
  out.lora.emplace();
  if (LooksLikePeft(path)) {
    NXDKIT_TRY(BindPeft(out, base, sharing));
  } else {
    if (KindOf(path) != PathKind::kFolder || !nxd::LooksLikeShardSet(path))
      return Error(Errc::kUnsupported,
                   "no LoRA adapter: neither a folder with adapter_config.json and "
                   "adapter_model.safetensors, nor an NxD set of its shards")
          .in(path);
    NXDKIT_TRY(BindLoraSet(out, base, sharing, hints));
  }
  out.bound.layout.files = out.artifact.ranks;
  if (base.model) out.model = *base.model;
  NXDKIT_TRY(CheckBinding(out.bound));
  return out;
}

Result<BoundArtifact> OpenLora(const std::string& path, Kind kind, nxd::LoraSharing sharing,
                               const InputHints& hints, const LoraParts* like) {
  Artifact found;  // of the base, but for its weights
  found.path = path;
  found.kind = kind;
  const std::string folder = KindOf(path) == PathKind::kFile ? ParentPath(path) : path;
  std::vector<std::string> folders = {folder};
  if (kind == Kind::kNxd) {
    NXDKIT_ASSIGN(const nxd::SetLocation location, nxd::Locate(path, hints.tag));
    folders = {location.tag_folder, location.root, ParentPath(location.root)};
  }
  NXDKIT_TRY(LoadConfig(found, hints, folders));
  if (!found.config)
    return Error(Errc::kNotFound,
                 "no config.json of the adapter's base: the adapter alone does not tell heads, "
                 "layers and family")
        .in(path)
        .hint("name it with --config");
  Result<models::Model> model = models::MakeModel(*found.config);
  if (!model.ok()) return std::move(model).error().in(found.config_path);
  const std::vector<LogicalTensor> params = model->Logical();
  NXDKIT_ASSIGN(BoundArtifact out,
                BindLora(path, {&params, &*model, found.config_path, like}, sharing, hints));
  out.artifact.kind = kind;
  out.artifact.config_path = found.config_path;
  out.artifact.config_text = found.config_text;
  out.artifact.config = found.config;
  return out;
}

}  // namespace nxdkit::ops
