#include "formats/artifact/artifact.h"

#include "lib/system/broken_download.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::artifact {
namespace {

Result<std::string> FindConfigFolder(const Looker& look, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    NXDKIT_ASSIGN(const bool there, look.IsFile(JoinPath(folder, "config.json")));
    if (there) return folder;
  }
  return std::string();
}

// The nearest of several folders is used, but others that differ are noted.
Status NoteOtherConfigs(Artifact& artifact, const std::vector<std::string>& folders) {
  size_t others = 0;
  for (const std::string& folder : folders) {
    const std::string path = folder.empty() ? "" : JoinPath(folder, "config.json");
    if (path.empty() || path == artifact.config_path) continue;
    NXDKIT_ASSIGN(const bool there, artifact.look.IsFile(path));
    if (!there) continue;
    const Result<std::string> text = ReadSmallFile(path, models::kMaxConfigBytes);
    others += !text.ok() || *text != artifact.config_text;
  }
  if (others > 0) artifact.choices.push_back({artifact.config_path, others + 1, "order"});
  return OkStatus();
}

}  // namespace

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

std::vector<std::string> PathsOf(const Artifact& artifact) {
  std::vector<std::string> paths;
  for (const TensorFile& file : artifact.files)
    if (file.format != kInMemory) paths.push_back(file.path);
  return paths;
}

Status LoadConfig(Artifact& artifact, const InputHints& hints,
                  const std::vector<std::string>& folders, const std::string& instead) {
  if (hints.no_config) return OkStatus();
  NXDKIT_ASSIGN(artifact.side_folder, FindConfigFolder(artifact.look, folders));
  std::optional<std::string> named = hints.config;
  if (!named && artifact.side_folder.empty() && instead.empty()) named = hints.config_if_none;
  if (named) {
    NXDKIT_ASSIGN(const bool is_folder, IsFolder(*named));
    artifact.config_path = is_folder ? JoinPath(*named, "config.json") : *named;
    if (artifact.side_folder.empty()) artifact.side_folder = ParentPath(artifact.config_path);
  } else if (!artifact.side_folder.empty()) {
    artifact.config_path = JoinPath(artifact.side_folder, "config.json");
  } else if (!instead.empty()) {
    artifact.config_path = instead;
  } else {
    return OkStatus();
  }
  NXDKIT_ASSIGN(artifact.config_text, ReadSmallFile(artifact.config_path, models::kMaxConfigBytes));
  if (!named) NXDKIT_TRY(NoteOtherConfigs(artifact, folders));
  auto config = OrBrokenDownload(
      models::ParseConfig(artifact.config_text, artifact.config_path, hints.family),
      artifact.config_path);
  if (!config.ok() && !hints.config_optional) return std::move(config).error();
  if (config.ok())
    artifact.config = *std::move(config);
  else
    artifact.config_fault = std::move(config).error();
  return OkStatus();
}

}  // namespace nxdkit::artifact
