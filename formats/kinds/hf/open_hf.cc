#include "formats/kinds/hf/read_hf.h"

#include <fmt/format.h>

#include "formats/hf/hf.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/run_folder.h"
#include "formats/safetensors/safetensors.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

Error WithWeightsHint(Error error, const std::string& folder, const InputHints& hints,
                      const Looker& look) {
  const Result<std::vector<std::string>> sets = hf::WeightSets(folder, look);
  if (error.code() != Errc::kUsage || !sets.ok() || sets->size() < 2) return error;
  const std::string named = hints.prefix.empty() ? "name the file instead of the folder"
                                                 : hints.prefix + "weights FILE chooses one";
  return std::move(error).hint(named + ", or keep only one of them in the folder");
}

// transformers would also load such an adapter into the model.
Status WarnOfAdapter(Artifact& artifact) {
  NXDKIT_ASSIGN(const std::string adapter, LoraFile(artifact.path, artifact.look));
  if (!adapter.empty())
    artifact.warnings.push_back(fmt::format(
        "{}: an adapter next to the weights; they are read without it (--merge-lora adds it)",
        adapter));
  return OkStatus();
}

}  // namespace

Result<bool> IsHfFile(const std::string& path) {
  if (path.ends_with(".safetensors") || hf::IsIndexName(path)) return true;
  return safetensors::LooksLikeSafetensors(path);
}

Result<std::string> PlaceOfHf(const std::string& path, const Looker& look) {
  std::string inside = JoinPath(path, kRunModelFolder);
  NXDKIT_ASSIGN(const bool here, hf::HasWeights(path, look));
  NXDKIT_ASSIGN(const bool below, hf::HasWeights(inside, look));
  return !here && below ? inside : path;
}

Status OpenHf(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_file, artifact.look.IsFile(artifact.path));
  const std::string folder = is_file ? ParentPath(artifact.path) : artifact.path;
  const std::string weights = hints.Text("weights").value_or("");
  if (is_file && !weights.empty())
    return BadUsage("{}weights names a file of a folder, and this is a file", hints.prefix)
        .in(artifact.path);
  if (is_file && !hf::IsIndexName(artifact.path)) {
    NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(artifact.path));
    artifact.files.push_back(std::move(file));
    return LoadConfig(artifact, hints, {folder});
  }
  Result<hf::Checkpoint> checkpoint =
      hf::Open(folder, OpenTensorFile, is_file ? BaseName(artifact.path) : weights, artifact.look);
  if (!checkpoint.ok())
    return WithWeightsHint(std::move(checkpoint).error(), folder, hints, artifact.look);
  if (checkpoint->choice) artifact.choices.push_back(*checkpoint->choice);
  if (!checkpoint->note.empty()) artifact.warnings.push_back(folder + ": " + checkpoint->note);
  artifact.files = std::move(checkpoint->files);
  if (!is_file) artifact.folder = folder;
  if (!is_file) NXDKIT_TRY(WarnOfAdapter(artifact));
  return LoadConfig(artifact, hints, {folder});
}

}  // namespace nxdkit::kinds
