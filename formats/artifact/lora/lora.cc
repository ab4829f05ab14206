#include "formats/artifact/lora/lora.h"

#include "formats/artifact/lora/lora_peft.h"
#include "formats/artifact/lora/lora_set.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {

Result<BoundArtifact> BindLora(const std::string& path, const LoraBase& base,
                               nxd::LoraSharing sharing, const InputHints& hints) {
  if (KindOf(path) == PathKind::kMissing) return NotFound("no such file or folder").in(path);
  BoundArtifact out;
  out.artifact.path = path;
  out.lora.emplace();
  if (LooksLikePeft(path)) {
    NXDKIT_TRY(BindPeft(out, base, sharing));
  } else {
    if (KindOf(path) != PathKind::kFolder || !nxd::LooksLikeShardSet(path))
      return Unsupported(
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
    return NotFound(
               "no config.json of the adapter's base: the adapter alone does not tell heads, "
               "layers and family")
        .in(path)
        .hint("name it with --config");
  NXDKIT_ASSIGN(const models::Model model, MakeModel(*found.config).in(found.config_path));
  const std::vector<LogicalTensor> params = model.Logical();
  NXDKIT_ASSIGN(BoundArtifact out,
                BindLora(path, {&params, &model, found.config_path, like}, sharing, hints));
  out.artifact.kind = kind;
  out.artifact.config_path = found.config_path;
  out.artifact.config_text = found.config_text;
  out.artifact.config = found.config;
  return out;
}

}  // namespace nxdkit::ops
