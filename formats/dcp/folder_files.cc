#include "formats/dcp/folder_files.h"

#include <algorithm>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr size_t kMaxOpenFiles = 128;
constexpr size_t kMaxPathBytes = 4096;
constexpr uint64_t kMaxSharing = 4;  // torch itself saves two copies of tied weights
constexpr uint64_t kFreeBytes = 1 << 20;

Error LeadsOut(const std::string& name) {
  return Corrupt("the file {} is a link that leads out of the folder", EscapeControl(name));
}

}  // namespace

Status CheckFileName(const std::string& name, std::string_view what) {
  bool good = !name.empty() && name.size() <= kMaxPathBytes && name.front() != '/' &&
              name.find('\0') == std::string::npos && name.find('\\') == std::string::npos;
  for (size_t at = 0; good && at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = std::string_view(name).substr(at, end - at);
    good = !part.empty() && part != "." && part != "..";
    at = end + 1;
  }
  if (good) return OkStatus();
  return Corrupt("{} \"{}\" is not a plain name in the folder", what,
                 EscapeControl(name.substr(0, 80)));
}

Status CheckInside(const std::string& folder, const std::string& name) {
  const std::string path = JoinPath(folder, name);
  NXDKIT_ASSIGN(const std::string real, RealPath(path));
  NXDKIT_ASSIGN(const std::string real_folder, RealPath(folder));
  if (real.starts_with(real_folder + "/")) return OkStatus();
  return LeadsOut(name).in(path);
}

Result<std::string> ReadFolderFile(const std::string& folder, const std::string& name,
                                   uint64_t max_bytes) {
  NXDKIT_TRY(CheckInside(folder, name));
  return ReadSmallFile(JoinPath(folder, name), max_bytes);
}

Result<FolderFiles> FolderFiles::Open(const std::string& folder, const std::set<std::string>& names,
                                      const std::string& said_by) {
  FolderFiles out;
  if (names.size() > kMaxOpenFiles)
    out.cache_ = std::make_shared<FileCache>(FileCache::Mode::kRead, kMaxOpenFiles);
  NXDKIT_ASSIGN(const std::string real_folder, RealPath(folder));
  std::map<std::string, std::string> seen;  // names, by file identity
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool there, IsThere(path));
    if (!there) return Corrupt("the file is missing, but {} names it", BaseName(said_by)).in(path);
    NXDKIT_ASSIGN(const std::string real, RealPath(path));
    if (!real.starts_with(real_folder + "/")) return LeadsOut(name).in(said_by);
    const auto [other, added] = seen.emplace(real, name);
    if (!added)
      return Corrupt("the files {} and {} are the same one", EscapeControl(other->second),
                     EscapeControl(name))
          .in(said_by);
    NXDKIT_ASSIGN(File file, File::OpenRead(path));
    out.numbers_.emplace(name, static_cast<uint32_t>(out.files.size()));
    out.all_bytes_ += file.bytes();
    out.files.push_back({path, "torch distributed", file.bytes(), {}, {}});
    out.open_.push_back(out.cache_ ? nullptr : std::make_shared<const File>(std::move(file)));
  }
  return out;
}

Result<std::shared_ptr<const File>> FolderFiles::Get(uint32_t number) const {
  if (open_[number]) return open_[number];
  return cache_->Get(files[number].path);
}

StoredTensor FolderFiles::Kept(StoredTensor tensor) {
  if (!cache_ || !tensor.storage->is_file_range()) return tensor;
  std::shared_ptr<const Storage>& again =
      reopened_[{tensor.storage->path(), tensor.storage->file_offset()}];
  if (!again || again->bytes() != tensor.storage->bytes()) again = Reopened(tensor.storage, cache_);
  tensor.storage = again;
  return tensor;
}

Status FolderFiles::Count(const StoredTensor& tensor) {
  NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensor.dtype, tensor.shape));
  const auto sum = CheckedAdd(tensor_bytes_, bytes);
  if (sum && (*sum <= kFreeBytes || *sum / kMaxSharing <= all_bytes_)) {
    tensor_bytes_ = *sum;
    return OkStatus();
  }
  return Unsupported("the tensors up to here have more than {} times the {} bytes of the files",
                     kMaxSharing, all_bytes_);
}

}  // namespace nxdkit::dcp
