#include "formats/nxd/tensor_files.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr size_t kMaxOpenFiles = 128;

}  // namespace

TensorFiles::TensorFiles(size_t main_files)
    : keeps_open_(main_files <= kMaxOpenFiles),
      cache_(std::make_shared<FileCache>(FileCache::Mode::kRead, 256)) {}

std::string TensorFiles::PathOf(const std::string& main, int64_t tid) {
  return JoinPath(main + kTensorFolder, fmt::format("tensor_{}.pt", tid));
}

StoredTensor TensorFiles::Inside(const torch::Archive& archive, size_t index) {
  StoredTensor tensor = archive.tensors.at(index);
  if (keeps_open_) return tensor;
  if (std::exchange(archive_path_, archive.path) != archive.path) reopened_.clear();
  std::shared_ptr<const Storage>& again = reopened_[tensor.storage.get()];
  if (!again) again = Reopened(tensor.storage, cache_);
  tensor.storage = again;
  return tensor;
}

Result<StoredTensor> TensorFiles::Open(const std::string& path, uint64_t& file_bytes) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
  const torch::TensorIndex* index = archive.root.tensor();
  if (!index)
    return Corrupt("the archive does not hold exactly one tensor").in(path).member("data.pkl");
  StoredTensor tensor = archive.tensors.at(index->index);
  tensor.storage = Reopened(std::move(tensor.storage), cache_);
  file_bytes += archive.file_bytes;
  return tensor;
}

Error TensorFiles::Missing(const std::string& main, const std::string& path) {
  const std::string folder = ParentPath(path);
  if (KindForHint(folder) != PathKind::kFolder)  // an error in any case
    return Corrupt("the tensors are in a folder {} next to this file, which is missing",
                   BaseName(folder))
        .in(main);
  return Corrupt("the tensor file {} is missing", BaseName(path)).in(folder);
}

}  // namespace nxdkit::nxd
