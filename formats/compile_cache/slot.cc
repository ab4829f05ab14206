#include "formats/compile_cache/slot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "formats/compile_cache/entry_lock.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

// The compilers' folders that have the entry, the latest compiler first.
Result<std::vector<std::string>> CompilersWith(const std::string& root, const std::string& module) {
  std::vector<std::string> found;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  for (const std::string& name : names) {
    if (!name.starts_with("neuronxcc-")) continue;
    NXDKIT_ASSIGN(const bool has_module, IsFolder(JoinPath(JoinPath(root, name), module)));
    if (has_module) found.push_back(name);
  }
  std::ranges::sort(found, [](const std::string& a, const std::string& b) {
    // An unknown version is not a late one. Runs of digits count as numbers.
    if ((a == kUnknownCompiler) != (b == kUnknownCompiler)) return b == kUnknownCompiler;
    return ::strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return found;
}

// Checks sizes only: fast, and enough to find a truncated file.
Status CheckSizes(const CacheEntry& entry) {
  NXDKIT_ASSIGN(const Manifest manifest, ReadManifest(JoinPath(entry.path, kManifestFile)));
  for (const ManifestFile& file : manifest.files) {
    const std::string member = JoinPath(entry.path, file.name);
    NXDKIT_ASSIGN(const PathInfo info, LookAt(member));
    if (info.kind == PathKind::kMissing)
      return NotFound("missing, and the manifest names it").in(member);
    if (info.bytes != file.bytes)
      return Corrupt("{} bytes found, the manifest says {}", info.bytes, file.bytes)
          .in(member)
          .hint("`neuron-cache verify` shows all of it, `neuron-cache prune --damaged` removes it");
  }
  return OkStatus();
}

void MarkUsed(const CacheEntry& entry) {
  // A read-only cache can still be used.
  static_cast<void>(::utimensat(AT_FDCWD, JoinPath(entry.path, kDoneFile).c_str(), nullptr, 0) ==
                    0);
}

// Other files show whether it is finished or has failed; a mark that stays then means nothing.
void RemoveMark(const std::string& path) { ::unlink(JoinPath(path, kMakingFile).c_str()); }

}  // namespace

Result<std::optional<CacheSlot>> CacheSlot::Use(const std::string& root,
                                                const std::string& compiler,
                                                const std::string& module, const Poll& poll) {
  NXDKIT_ASSIGN(std::vector<std::string> compilers, CompilersWith(root, module));
  if (!compiler.empty()) std::erase_if(compilers, [&](const auto& c) { return c != compiler; });
  for (const std::string& name : compilers) {
    const std::string path = JoinPath(JoinPath(root, name), module);
    Result<FolderLock> lock = WaitForLock(path, FolderLock::Mode::kShared, poll);
    if (!lock.ok() && lock.error().code() == Errc::kNotFound) continue;  // pruned meanwhile
    if (!lock.ok()) return std::move(lock).error();
    NXDKIT_ASSIGN(CacheEntry entry, ReadEntry(path));
    if (entry.state != EntryState::kDone || entry.payload != kBlobFile) continue;
    NXDKIT_TRY(CheckSizes(entry));
    MarkUsed(entry);
    return std::optional<CacheSlot>(CacheSlot(std::move(entry), *std::move(lock)));
  }
  return std::optional<CacheSlot>();
}

Result<CacheSlot> CacheSlot::Make(const std::string& root, const std::string& compiler,
                                  const std::string& module, const Poll& poll) {
  const std::string path = JoinPath(JoinPath(root, compiler), module);
  constexpr int kMostTries = 1000;
  for (int tried = 1;; ++tried) {
    NXDKIT_TRY(MakeFolders(path));
    Result<FolderLock> lock = WaitForLock(path, FolderLock::Mode::kExclusive, poll);
    const bool pruned = !lock.ok() && lock.error().code() == Errc::kNotFound;  // meanwhile
    if (pruned && tried < kMostTries) continue;
    if (!lock.ok()) return std::move(lock).error();
    NXDKIT_ASSIGN(CacheEntry entry, ReadEntry(path));
    return CacheSlot(std::move(entry), *std::move(lock));
  }
}

Status CacheSlot::RemoveAllBut(std::string_view kept) {
  NXDKIT_ASSIGN(std::vector<std::string> names, ListFolder(path()));
  // The marker first: a half-removed entry must not look finished.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == kDoneFile; });
  for (const std::string& name : names)
    if (name != kept) NXDKIT_TRY(RemoveTree(JoinPath(path(), name)));
  return OkStatus();
}

Status CacheSlot::Begin() {
  NXDKIT_TRY(WriteFileAtomic(JoinPath(path(), kMakingFile), ""));
  return RemoveAllBut(kMakingFile);
}

Status CacheSlot::Empty() { return RemoveAllBut(""); }

Status CacheSlot::WriteKey(const CacheKey& key) const {
  NXDKIT_TRY(WriteFileAtomic(JoinPath(path(), kFlagsFile), key.flags_json));
  return WriteFileAtomic(JoinPath(path(), kGraphFile), key.graph);
}

std::optional<double> CacheSlot::CompileSeconds() const {
  const Result<Manifest> manifest = ReadManifest(JoinPath(path(), kManifestFile));
  return manifest.ok() ? manifest->compile_seconds : std::nullopt;
}

Status CacheSlot::Finish(const CacheKey& key, const std::string& summary, const Poll& poll,
                         std::optional<double> compile_seconds) {
  Manifest manifest;
  manifest.compile_seconds = compile_seconds;
  manifest.summary = summary;
  NXDKIT_TRY(WriteKey(key));
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(path()));
  for (const std::string& name : names) {
    const std::string file = JoinPath(path(), name);
    const bool is_ours = name == kManifestFile || name == kMakingFile;
    NXDKIT_ASSIGN(const bool is_file, IsFile(file));
    if (is_ours || !is_file) continue;
    NXDKIT_ASSIGN(std::string digest, DigestFile(file, poll));
    NXDKIT_ASSIGN(const File opened, File::OpenRead(file));
    NXDKIT_TRY(opened.Sync());
    manifest.files.push_back({name, opened.bytes(), std::move(digest)});
  }
  NXDKIT_TRY(WriteFileAtomic(JoinPath(path(), kManifestFile), WriteManifest(manifest)));
  NXDKIT_TRY(SyncFolder(path()));
  NXDKIT_TRY(WriteFileAtomic(JoinPath(path(), kDoneFile), ""));
  NXDKIT_TRY(SyncFolder(path()));
  RemoveMark(path());
  NXDKIT_ASSIGN(entry_, ReadEntry(path()));
  // Exchanging the lock takes two steps, but nobody removes an entry made a moment ago.
  lock_.Release();
  return WaitForLock(path(), FolderLock::Mode::kShared, poll).To(lock_);
}

Status CacheSlot::Fail(const CacheKey& key, const std::string& log) {
  NXDKIT_TRY(RemoveAllBut(kMakingFile));
  NXDKIT_TRY(WriteKey(key));
  NXDKIT_TRY(WriteFileAtomic(JoinPath(path(), kFailureFile), log));
  RemoveMark(path());
  return ReadEntry(path()).To(entry_);
}

}  // namespace nxdkit::neff
