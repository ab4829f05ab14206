// What an inspection counts, lists and measures.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "formats/ops/inspect/inspect.h"
#include "formats/ops/inspect/inspect_parts.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

std::string_view PathOf(const TensorFile& file, const StoredTensor& tensor) {
  return tensor.storage ? std::string_view(tensor.storage->path()) : std::string_view(file.path);
}

}  // namespace

uint64_t FileBytes(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<uint64_t>(info.st_size);
}

uint64_t TensorBytes(const StoredTensor& tensor) {
  const Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);  // checked by the reader
  return bytes.ok() ? *bytes : 0;
}

void CountTensors(Inspection& inspection) {
  std::array<DtypeUse, kDtypeCount> uses{};
  std::unordered_set<std::string_view> others;  // files of single tensors
  for (const TensorFile& file : inspection.artifact.files) {
    ++inspection.files;
    inspection.bytes += file.file_bytes;  // for xser with the files of its tensors
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
  std::stable_sort(inspection.dtypes.begin(), inspection.dtypes.end(),
                   [](const DtypeUse& a, const DtypeUse& b) { return a.bytes > b.bytes; });
}

std::string FileOf(const Inspection& inspection, TensorPlace place) {
  const TensorFile& file = inspection.artifact.files[place.file];
  const std::string_view path = PathOf(file, inspection.tensor(place));
  std::string_view folder = inspection.artifact.path;
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
  if (!selection.top) return places;
  std::stable_sort(places.begin(), places.end(), [&](TensorPlace a, TensorPlace b) {
    return TensorBytes(inspection.tensor(a)) > TensorBytes(inspection.tensor(b));
  });
  if (places.size() > *selection.top) places.resize(*selection.top);
  return places;
}

}  // namespace nxdkit::ops
