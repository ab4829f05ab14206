#include "formats/kinds/hf/read_hf.h"

#include "formats/adapter/lora_config.h"
#include "formats/hf/hf.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/peft_tensors.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {

Result<std::vector<std::string>> LoraFiles(const std::string& folder, const Looker& look) {
  std::vector<std::string> files;
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"}) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (there) files.push_back(JoinPath(folder, name));
  }
  return files;
}

Result<std::string> LoraFile(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> files, LoraFiles(folder, look));
  return files.empty() ? std::string() : files.front();
}

Result<bool> LooksLikePeft(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool is_file, look.IsFile(path));
  if (is_file) return BaseName(path).starts_with("adapter_model.");
  NXDKIT_ASSIGN(const std::string file, LoraFile(path, look));
  NXDKIT_ASSIGN(const bool has_weights, hf::HasWeights(path, look));
  return !file.empty() && !has_weights;
}

Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_file, out.artifact.look.IsFile(out.artifact.path));
  std::vector<std::string> files = {out.artifact.path};
  if (!is_file) NXDKIT_TRY(LoraFiles(out.artifact.path, out.artifact.look).To(files));
  if (files.size() > 1)
    return BadUsage(
               "there are {} adapters in the folder, and nothing says which one to use: {} and {}",
               files.size(), BaseName(files[0]), BaseName(files[1]))
        .in(out.artifact.path)
        .hint("name the file instead of the folder, or keep only one of them in it");
  const std::string& path = files.front();
  NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(path));
  const bool archive = file.format.starts_with("torch");
  NXDKIT_ASSIGN(LoraConfigFile config, FindLoraConfig(archive ? path : "", {ParentPath(path)}));
  if (hints.lora_alpha)
    return BadUsage("--lora-alpha is for an adapter whose files do not have it: {} does",
                    config.path);
  out.lora->config = std::move(config.config);
  out.lora->config_path = std::move(config.path);
  out.artifact.kind = &kHf;
  if (!is_file) out.artifact.folder = out.artifact.path;
  out.artifact.files.push_back(std::move(file));
  out.artifact.ranks.push_back({path, -1, -1});
  return BindPeftTensors(out, base, sharing);
}

}  // namespace nxdkit::kinds
