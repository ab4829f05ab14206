#include "formats/ops/read/source_files.h"

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

void AddOnce(std::vector<uint32_t>& to, std::span<const uint32_t> from) {
  to.insert(to.end(), from.begin(), from.end());
  std::ranges::sort(to);
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

bool IsSame(const PathInfo& a, const PathInfo& b) {
  return a.kind == b.kind && a.device == b.device && a.inode == b.inode && a.bytes == b.bytes &&
         a.written_ns == b.written_ns;
}

std::string FileText(const PathInfo& file) {
  if (file.kind == PathKind::kMissing) return "no file";
  return fmt::format("{} bytes, written at {} ns, inode {} of device {}", file.bytes,
                     file.written_ns, file.inode, file.device);
}

bool IsComputed(const BoundArtifact& artifact, const StoredTensor& stored) {
  return artifact.base && !stored.storage->is_file_range();
}

}  // namespace

Result<std::optional<PathInfo>> SourceFiles::FirstLook(const std::string& path) const {
  if (before_) {
    const auto known = before_->numbers_.find(path);
    if (known != before_->numbers_.end())
      return known->second ? std::optional(before_->files_[*known->second].info) : std::nullopt;
  }
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  return info.kind == PathKind::kFile ? std::optional(info) : std::nullopt;
}

Result<std::optional<uint32_t>> SourceFiles::NumberOf(const StoredTensor& stored) {
  if (stored.storage->is_borrowed()) return std::optional<uint32_t>();
  const auto [at, is_new] = numbers_.try_emplace(stored.storage->path());
  if (!is_new) return at->second;
  NXDKIT_ASSIGN(const std::optional<PathInfo> info, FirstLook(at->first));
  if (!info) return at->second;
  at->second = static_cast<uint32_t>(files_.size());
  files_.push_back({at->first, *info});
  return at->second;
}

Result<SourceFiles::ByParam> SourceFiles::FilesByParam(const BoundArtifact& artifact) {
  NXDKIT_ASSIGN(ByParam files, ComputedFrom(artifact));
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t) {
    NXDKIT_ASSIGN(const std::optional<uint32_t> own, NumberOf(artifact.bound.stored[t]));
    if (!own) continue;
    for (const Piece& piece : artifact.bound.layout.tensors[t].pieces)
      AddOnce(files[artifact.params[piece.param].name], std::span(&*own, 1));
  }
  return files;
}

// An adapter is small, and each of its matrices may belong to several parameters: all of its files.
Result<SourceFiles::ByParam> SourceFiles::ComputedFrom(const BoundArtifact& artifact) {
  if (!artifact.base) return ByParam();
  NXDKIT_ASSIGN(ByParam files, FilesByParam(*artifact.base));
  if (!artifact.merged) return files;
  NXDKIT_ASSIGN(const ByParam of_adapter, FilesByParam(*artifact.merged));
  std::vector<uint32_t> all;
  for (const auto& [param, numbers] : of_adapter) AddOnce(all, numbers);
  for (auto& [param, numbers] : files) AddOnce(numbers, all);
  return files;
}

Result<SourceFiles> SourceFiles::LookAtAll(const BoundArtifact& source, const SourceFiles* before) {
  SourceFiles out;
  out.before_ = before;
  for (const StoredTensor& stored : source.bound.stored) {
    NXDKIT_ASSIGN(const std::optional<uint32_t> own, out.NumberOf(stored));
    out.own_.push_back(own);
  }
  NXDKIT_TRY(out.ComputedFrom(source).To(out.computed_from_));
  out.before_ = nullptr;
  return out;
}

std::vector<uint32_t> SourceFiles::FilesOf(const BoundArtifact& source,
                                           std::span<const uint32_t> stored) const {
  std::vector<uint32_t> files;
  for (const uint32_t t : stored) {
    if (own_[t]) files.push_back(*own_[t]);
    if (!IsComputed(source, source.bound.stored[t])) continue;
    for (const Piece& piece : source.bound.layout.tensors[t].pieces) {
      const auto from = computed_from_.find(source.params[piece.param].name);
      if (from != computed_from_.end())
        files.insert(files.end(), from->second.begin(), from->second.end());
    }
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

Status SourceFiles::CheckUnchanged(std::span<const uint32_t> files) const {
  for (const uint32_t file : files) {
    const auto& [path, expected] = files_[file];
    NXDKIT_ASSIGN(const PathInfo found, LookAt(path));
    if (!IsSame(found, expected))
      return Corrupt("the file has changed since it was opened: {} found, {} expected",
                     FileText(found), FileText(expected))
          .in(path)
          .hint("open it again; values read before are the old file's");
  }
  return OkStatus();
}

}  // namespace nxdkit::ops
