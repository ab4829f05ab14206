#include "formats/ops/inspect/tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

std::string_view PathOf(const TensorFile& file, const StoredTensor& tensor) {
  return tensor.storage ? std::string_view(tensor.storage->path()) : std::string_view(file.path);
}

// "layers.12.mlp.up_proj.weight" is in layer 12: the first part of the name that is a number; -1
// for none.
int64_t LayerOf(std::string_view name) {
  for (const std::string_view part : Split(name, '.'))
    if (const auto layer = ParseNumber<int64_t>(part); layer && *layer >= 0) return *layer;
  return -1;
}

// A path below `folder`, or below the folders around it, relative to that; any other as it is.
std::string RelativeText(std::string_view path, std::string_view folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  // For a single file, relative to the folder around it.
  for (int level = 0; level < 2; ++level) {
    if (path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/')
      return std::string(path.substr(path.find_first_not_of('/', folder.size())));
    const size_t slash = folder.rfind('/');
    if (slash == std::string_view::npos || slash == 0) break;
    folder = folder.substr(0, slash);
  }
  return std::string(path);
}

}  // namespace

uint64_t TensorBytes(const StoredTensor& tensor) {
  const Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);  // checked by the reader
  return bytes.ok() ? *bytes : 0;
}

void CountTensors(Inspection& inspection) {
  std::array<DtypeUse, kDtypeCount> uses{};
  std::unordered_set<std::string_view> others;  // files of single tensors
  for (const TensorFile& file : inspection.artifact.files) {
    ++inspection.files;
    inspection.bytes += file.file_bytes;  // for xser with the tensors' files
    inspection.tensors += file.tensors.size();
    for (const StoredTensor& tensor : file.tensors) {
      DtypeUse& use = uses[static_cast<size_t>(tensor.dtype)];
      use.dtype = tensor.dtype;
      ++use.tensors;
      use.elements += static_cast<uint64_t>(ElementCount(tensor.shape).value_or(0));
      use.bytes += TensorBytes(tensor);
      if (const std::string_view path = PathOf(file, tensor); path != file.path)
        others.insert(path);
    }
  }
  inspection.files += others.size();
  for (const DtypeUse& use : uses) {
    if (use.tensors == 0) continue;
    inspection.parameters += use.elements;
    inspection.dtypes.push_back(use);
  }
  std::ranges::stable_sort(inspection.dtypes, std::greater(), &DtypeUse::bytes);
}

std::string FileOf(const Inspection& inspection, TensorPlace place) {
  const TensorFile& file = inspection.artifact.files[place.file];
  return RelativeText(PathOf(file, inspection.tensor(place)), inspection.artifact.path);
}

std::string FileLabel(const Inspection& inspection, uint32_t file) {
  const artifact::Artifact& artifact = inspection.artifact;
  std::string text = RelativeText(artifact.files[file].path, artifact.path);
  if (file >= artifact.ranks.size() || artifact.ranks[file].tp_rank < 0) return text;
  const LayoutFile& rank = artifact.ranks[file];
  text += fmt::format(" (tp {}", rank.tp_rank);
  if (rank.pp_rank >= 0) text += fmt::format(", pp {}", rank.pp_rank);
  if (rank.ep_rank >= 0) text += fmt::format(", ep {}", rank.ep_rank);
  return text + ")";
}

std::vector<TensorPlace> SelectTensors(const Inspection& inspection, const Selection& selection) {
  std::vector<TensorPlace> places;
  const auto wanted = [&](const std::string& name) {
    return selection.filters.empty() ||
           std::ranges::any_of(selection.filters,
                               [&](const std::string& glob) { return GlobMatch(glob, name); });
  };
  for (uint32_t f = 0; f < inspection.artifact.files.size(); ++f) {
    const std::vector<StoredTensor>& tensors = inspection.artifact.files[f].tensors;
    for (uint32_t i = 0; i < tensors.size(); ++i)
      if (wanted(tensors[i].name)) places.push_back({f, i});
  }
  if (!selection.top && !selection.by_layer) return places;
  const auto key = [&](TensorPlace place) {
    const StoredTensor& tensor = inspection.tensor(place);
    const auto rank = selection.top ? std::pair<uint32_t, int64_t>()
                                    : std::pair(place.file, LayerOf(tensor.name));
    return std::pair(rank, ~TensorBytes(tensor));
  };
  std::ranges::stable_sort(places, {}, key);
  if (selection.top && places.size() > *selection.top) places.resize(*selection.top);
  return places;
}

}  // namespace nxdkit::ops
