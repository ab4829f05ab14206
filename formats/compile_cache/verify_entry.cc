#include "formats/compile_cache/verify_entry.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "formats/compile_cache/manifest.h"
#include "formats/neff/header.h"
#include "lib/hash/digest.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxFlagsBytes = 1 << 20;
constexpr uint64_t kMaxJsonBytes = 1 << 20;

// To read a payload is no use of it: the order of eviction stays.
class KeepAccessTime {
 public:
  explicit KeepAccessTime(std::string path) : path_(std::move(path)) {
    known_ = ::stat(path_.c_str(), &before_) == 0;
  }
  KeepAccessTime(const KeepAccessTime&) = delete;
  KeepAccessTime& operator=(const KeepAccessTime&) = delete;
  ~KeepAccessTime() {
    if (!known_) return;
    const timespec times[2] = {before_.st_atim, {0, UTIME_OMIT}};
    // A cache that may only be read has no times to keep.
    static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), times, 0) == 0);
  }

 private:
  std::string path_;
  struct stat before_ = {};
  bool known_ = false;
};

class Verifier {
 public:
  Verifier(const CacheEntry& entry, const std::function<Status()>& poll,
           const BlobCheck& check_blob)
      : entry_(entry), poll_(poll), check_blob_(check_blob) {}

  Result<std::vector<EntryFault>> Run() {
    if (!entry_.well_named)
      Add("", "the name is not MODULE_<letters and digits>+<8 hexadecimal digits>");
    const KeepAccessTime keep(JoinPath(entry_.path, entry_.payload));
    NXDKIT_TRY(CheckFlags());
    if (entry_.payload == kNeffFile) NXDKIT_TRY(CheckNeff());
    if (entry_.payload == kBlobFile) NXDKIT_TRY(CheckBlobs());
    const bool ours = KindOf(JoinPath(entry_.path, kManifestFile)) == PathKind::kFile;
    if (ours)
      NXDKIT_TRY(CheckManifest());
    else if (entry_.payload == kBlobFile)
      Add(kManifestFile, "missing: nothing says what model.pt has to be");
    return std::move(faults_);
  }

 private:
  void Add(std::string file, std::string message) {
    faults_.push_back({std::move(file), std::move(message)});
  }
  std::string Path(std::string_view name) const { return JoinPath(entry_.path, name); }

  // Errors of the file are faults of the entry; those of the system and of the user are not.
  template <typename T>
  Status Keep(const std::string& file, const Result<T>& result) {
    if (result.ok()) return OkStatus();
    const Errc code = result.error().code();
    if (code != Errc::kCorrupt && code != Errc::kNotFound && code != Errc::kUnsupported)
      return result.error();
    std::string message = result.error().message();
    if (!result.error().member().empty()) message = result.error().member() + ": " + message;
    if (result.error().offset())
      message = fmt::format("offset {}: {}", *result.error().offset(), message);
    Add(file, std::move(message));
    return OkStatus();
  }

  Status CheckFlags() {
    for (const char* name : {kFlagsFile, kOldFlagsFile}) {
      if (KindOf(Path(name)) != PathKind::kFile) continue;
      const Result<std::string> flags = ReadSmallFile(Path(name), kMaxFlagsBytes);
      NXDKIT_TRY(Keep(name, flags));
      if (!flags.ok() || !entry_.well_named) return OkStatus();
      const std::string expected = entry_.module.substr(entry_.module.rfind('+') + 1);
      const std::string found = Md5Hex(*flags).substr(0, expected.size());
      if (found != expected)
        Add(name,
            fmt::format("the hash of the flags is {}, the entry's name says {}", found, expected));
      return OkStatus();
    }
    return OkStatus();  // entries may lack it
  }

  Status CheckNeff() {
    Result<File> file = File::OpenRead(Path(kNeffFile));
    NXDKIT_TRY(Keep(kNeffFile, file));
    if (!file.ok()) return OkStatus();
    const Result<Located> neff = ReadAt(*file, 0, file->bytes());
    NXDKIT_TRY(Keep(kNeffFile, neff));
    if (!neff.ok()) return OkStatus();
    const uint64_t whole = kHeaderBytes + neff->header.data_bytes;
    if (whole != file->bytes())
      Add(kNeffFile, fmt::format("{} bytes found, the header says {}", file->bytes(), whole));
    const Result<bool> matches = HashMatches(*file, *neff, poll_);
    NXDKIT_TRY(Keep(kNeffFile, matches));
    if (matches.ok() && !*matches)
      Add(kNeffFile, "the payload does not have the hash of the header, " + HashText(neff->header));
    return OkStatus();
  }

  // model.pt, and model_<part>.pt of models in several parts.
  Status CheckBlobs() {
    if (!check_blob_) return OkStatus();
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry_.path));
    for (const std::string& name : names) {
      if (!name.ends_with(".pt")) continue;
      const Result<std::vector<std::string>> messages = check_blob_(Path(name), poll_);
      NXDKIT_TRY(Keep(name, messages));
      if (!messages.ok()) continue;
      for (const std::string& message : *messages) Add(name, message);
    }
    return OkStatus();
  }

  Status CheckManifest() {
    const std::string path = Path(kManifestFile);
    const Result<std::string> text = ReadSmallFile(path, kMaxJsonBytes);
    NXDKIT_TRY(Keep(kManifestFile, text));
    if (!text.ok()) return OkStatus();
    const Result<Manifest> manifest = ParseManifest(*text, path);
    NXDKIT_TRY(Keep(kManifestFile, manifest));
    if (!manifest.ok()) return OkStatus();
    for (const ManifestFile& file : manifest->files) {
      const Result<std::string> digest = DigestFile(Path(file.name), poll_);
      NXDKIT_TRY(Keep(file.name, digest));
      if (digest.ok() && *digest != file.digest)
        Add(file.name, fmt::format("{} found, the manifest says {}", *digest, file.digest));
    }
    const bool has_payload = std::ranges::any_of(
        manifest->files, [&](const ManifestFile& file) { return file.name == entry_.payload; });
    if (!has_payload) Add(kManifestFile, fmt::format("{} is not in the manifest", entry_.payload));
    return OkStatus();
  }

  const CacheEntry& entry_;
  const std::function<Status()>& poll_;
  const BlobCheck& check_blob_;
  std::vector<EntryFault> faults_;
};

}  // namespace

Result<std::vector<EntryFault>> VerifyEntry(const CacheEntry& entry,
                                            const std::function<Status()>& poll,
                                            const BlobCheck& check_blob) {
  if (entry.state != EntryState::kDone) return std::vector<EntryFault>();
  return Verifier(entry, poll, check_blob).Run();
}

}  // namespace nxdkit::neff
