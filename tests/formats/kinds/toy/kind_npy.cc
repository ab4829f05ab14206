#include "tests/formats/kinds/toy/kind_npy.h"

#include "formats/kinds/hf/read_hf.h"
#include "lib/base/errors.h"
#include "lib/system/paths.h"
#include "tests/formats/kinds/toy/npy_file.h"

namespace nxdkit::kinds {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr size_t kOpenFiles = 64;  // a model has more tensors than a process may open files

Result<std::vector<std::string>> NpyNames(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(std::vector<std::string> names, look.ListIfThere(folder));
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with('.') || !name.ends_with(kSuffix);
  });
  return names;
}

// One whole file is enough: a damaged one is reported as the kind it was meant to be.
Result<bool> IsNpyFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, NpyNames(path, look));
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const bool is_npy, npy::LooksLikeNpy(JoinPath(path, name)));
    if (is_npy) return true;
  }
  return false;
}

Status OpenNpyFolder(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (!is_folder) return Unsupported("an npy folder is expected; this is a file").in(artifact.path);
  NXDKIT_ASSIGN(const std::vector<std::string> names, NpyNames(artifact.path, artifact.look));
  if (names.empty()) return NotFound("no .npy file").in(artifact.path);
  const std::string prefix = hints.Text("strip").value_or("");
  const auto cache = std::make_shared<FileCache>(FileCache::Mode::kRead, kOpenFiles);
  for (const std::string& name : names) {
    const std::string path = JoinPath(artifact.path, name);
    if (!name.starts_with(prefix))
      return BadUsage("{}strip {}: the file's name begins otherwise", hints.prefix, prefix)
          .in(path);
    const size_t length = name.size() - kSuffix.size();
    if (length <= prefix.size())
      return BadUsage("{}strip {} leaves nothing of the file's name", hints.prefix, prefix)
          .in(path);
    NXDKIT_ASSIGN(TensorFile file,
                  npy::OpenNpy(path, name.substr(prefix.size(), length - prefix.size()), cache));
    artifact.files.push_back(std::move(file));
  }
  artifact.folder = artifact.path;
  return LoadConfig(artifact, hints, {artifact.path});
}

constexpr OptionRow kNpyRows[] = {
    {"strip", "PREFIX", "what the names of .npy files have before the parameter's", kAsInput,
     "{option} is of the names of .npy files, and this is {what}"}};

}  // namespace

const Kind kNpy = {
    .name = "npy",
    .called = "a folder of .npy files",
    .precedence = 7,
    .is_folder = IsNpyFolder,
    .open = OpenNpyFolder,
    .bind = BindHf,
    .options = kNpyRows,
    .stores_once = true,
};

}  // namespace nxdkit::kinds
