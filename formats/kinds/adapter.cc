#include "formats/kinds/adapter.h"

#include <fmt/core.h>

#include "formats/adapter/lora_config.h"
#include "formats/kinds/nearby.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// nullptr if it is not an adapter.
Result<const Kind*> KindOfAdapter(const std::string& path, const Looker& look) {
  for (const Kind* kind : Kinds()) {
    NXDKIT_ASSIGN(const bool is,
                  kind->is_adapter ? kind->is_adapter(path, look) : Result<bool>(false));
    if (is) return kind;
  }
  return nullptr;
}

// PEFT saves a named adapter in a folder of that name, and trainers save one for each step.
std::string AdapterBelow(const std::string& path, const Looker& look) {
  for (const std::string& below : ArtifactsBelow(path, look)) {
    const Result<bool> is = look.HasFile(JoinPath(path, below), kLoraConfigFile);
    if (is.ok() && *is) return JoinPath(path, below);
  }
  return "";
}

Error NoAdapter(const std::string& path, const Looker& look) {
  const std::string below = AdapterBelow(path, look);
  return Unsupported(
             "no LoRA adapter: neither a folder with adapter_config.json and "
             "adapter_model.safetensors, nor an NxD set of its shards")
      .in(path)
      .hint(below.empty() ? "" : fmt::format("there is one deeper: name {}", below));
}

}  // namespace

Result<BoundArtifact> BindLora(const std::string& path, const LoraBase& base,
                               nxd::LoraSharing sharing, const InputHints& hints,
                               const Looker& look) {
  NXDKIT_ASSIGN(const bool there, look.IsThere(path));
  if (!there) return NotFound("no such file or folder").in(path);
  BoundArtifact out;
  out.artifact.path = path;
  out.artifact.look = look;
  out.lora.emplace();
  NXDKIT_ASSIGN(const Kind* const kind, KindOfAdapter(path, look));
  if (!kind) return NoAdapter(path, look);
  out.artifact.kind = kind;
  NXDKIT_TRY(kind->bind_adapter(out, base, sharing, hints));
  out.bound.layout.files = out.artifact.ranks;
  if (base.model) out.model = *base.model;
  NXDKIT_TRY(CheckBinding(out.bound));
  return out;
}

Result<BoundArtifact> OpenLora(const std::string& path, const Kind& kind, nxd::LoraSharing sharing,
                               const InputHints& hints, const Looker& look, const LoraParts* like) {
  Artifact found;  // the base's, except for its weights
  found.path = path;
  found.kind = &kind;
  found.look = look;
  NXDKIT_ASSIGN(const bool is_file, look.IsFile(path));
  std::vector<std::string> folders = {is_file ? ParentPath(path) : path};
  if (kind.adapter_folders) NXDKIT_TRY(kind.adapter_folders(path, hints, look).To(folders));
  NXDKIT_TRY(LoadConfig(found, hints, folders));
  if (!found.config)
    return NotFound(
               "no config.json of the adapter's base: the adapter alone does not determine heads, "
               "layers and family")
        .in(path)
        .hint("name it with --config");
  NXDKIT_ASSIGN(const models::Model model, MakeModel(*found.config).in(found.config_path));
  const std::vector<LogicalTensor> params = model.Logical();
  NXDKIT_ASSIGN(BoundArtifact out,
                BindLora(path, {&params, &model, found.config_path, like}, sharing, hints, look));
  out.artifact.kind = &kind;
  out.artifact.config_path = found.config_path;
  out.artifact.config_text = found.config_text;
  out.artifact.config = found.config;
  return out;
}

}  // namespace nxdkit::kinds
