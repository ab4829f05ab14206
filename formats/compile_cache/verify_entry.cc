#include "formats/compile_cache/verify_entry.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "formats/compile_cache/manifest.h"
#include "formats/neff/header.h"
#include "lib/compress/decompressor.h"
#include "lib/hash/digest.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxFlagsBytes = 1 << 20;

// To read a payload is no use of it: the order of eviction stays.
class KeepAccessTime {
 public:
  explicit KeepAccessTime(std::string path) : path_(std::move(path)) {
    // Who reads it next says why it cannot be looked at.
    if (const Result<PathInfo> info = LookAt(path_); info.ok()) before_ = *info;
  }
  KeepAccessTime(const KeepAccessTime&) = delete;
  KeepAccessTime& operator=(const KeepAccessTime&) = delete;
  ~KeepAccessTime() {
    if (before_.kind == PathKind::kMissing) return;
    constexpr int64_t kSecond = 1'000'000'000;
    const timespec times[2] = {{before_.read_ns / kSecond, before_.read_ns % kSecond},
                               {0, UTIME_OMIT}};
    // A cache that may only be read has no times to keep.
    static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), times, 0) == 0);
  }

 private:
  std::string path_;
  PathInfo before_;
};

class Verifier {
 public:
  Verifier(const CacheEntry& entry, const std::function<Status()>& poll,
           const BlobCheck& check_blob)
      : entry_(entry), poll_(poll), check_blob_(check_blob) {}

  Result<std::vector<EntryFault>> Run() {
    if (!entry_.well_named)
      Add("", "the name is not MODULE_<letters and digits>+<8 hexadecimal digits>");
    const KeepAccessTime keep(Path(entry_.payload));
    for (const char* name : {kFlagsFile, kOldFlagsFile}) {  // entries may have neither
      NXDKIT_ASSIGN(const bool there, Has(name));
      if (!there) continue;
      NXDKIT_TRY(Keep(name, CheckFlags(name)));
      break;
    }
    if (entry_.payload == kNeffFile) NXDKIT_TRY(Keep(kNeffFile, CheckNeff()));
    if (entry_.payload == kBlobFile) NXDKIT_TRY(CheckBlobs());
    NXDKIT_TRY(CheckCompressed());
    NXDKIT_ASSIGN(const bool has_manifest, Has(kManifestFile));
    if (has_manifest)
      NXDKIT_TRY(Keep(kManifestFile, CheckManifest()));
    else if (entry_.payload == kBlobFile)
      Add(kManifestFile, "missing: nothing says what model.pt has to be");
    return std::move(faults_);
  }

 private:
  void Add(std::string file, std::string message) {
    faults_.push_back({std::move(file), std::move(message)});
  }
  std::string Path(std::string_view name) const { return JoinPath(entry_.path, name); }
  Result<bool> Has(std::string_view name) const { return IsFile(Path(name)); }

  // Errors of the file are faults of the entry; those of the system and of the user are not.
  Status Keep(const std::string& file, const Status& checked) {
    if (checked.ok()) return OkStatus();
    const Error& error = checked.error();
    if (error.code() != Errc::kCorrupt && error.code() != Errc::kNotFound &&
        error.code() != Errc::kUnsupported)
      return error;
    std::string message = error.message();
    if (!error.member().empty()) message = error.member() + ": " + message;
    if (error.offset()) message = fmt::format("offset {}: {}", *error.offset(), message);
    Add(file, std::move(message));
    return OkStatus();
  }

  Status CheckFlags(const char* name) {
    NXDKIT_ASSIGN(const std::string flags, ReadSmallFile(Path(name), kMaxFlagsBytes));
    if (!entry_.well_named) return OkStatus();
    const std::string expected = entry_.module.substr(entry_.module.rfind('+') + 1);
    const std::string found = Md5Hex(flags).substr(0, expected.size());
    if (found != expected)
      Add(name,
          fmt::format("the hash of the flags is {}, the entry's name says {}", found, expected));
    return OkStatus();
  }

  Status CheckNeff() {
    NXDKIT_ASSIGN(const File file, File::OpenRead(Path(kNeffFile)));
    NXDKIT_ASSIGN(const Located neff, ReadAt(file, 0, file.bytes()));
    const uint64_t whole = kHeaderBytes + neff.header.data_bytes;
    if (whole != file.bytes())
      Add(kNeffFile, fmt::format("{} bytes found, the header says {}", file.bytes(), whole));
    NXDKIT_ASSIGN(const bool matches, HashMatches(file, neff, poll_));
    if (!matches)
      Add(kNeffFile, "the payload does not have the hash of the header, " + HashText(neff.header));
    return OkStatus();
  }

  // The graph, where it is kept compressed: its checksum.
  Status CheckCompressed() {
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry_.path));
    for (const std::string& name : names) {
      NXDKIT_ASSIGN(const bool compressed, name.ends_with(".gz") ? Has(name) : Result<bool>(false));
      if (compressed) NXDKIT_TRY(Keep(name, CheckGzip(name)));
    }
    return OkStatus();
  }

  Status CheckGzip(const std::string& name) {
    NXDKIT_ASSIGN(const File file, File::OpenRead(Path(name)));
    uint64_t at = 0;
    Decompressor stream(
        [&](std::span<std::byte> to) -> Result<size_t> {
          const auto part = to.first(std::min<uint64_t>(to.size(), file.bytes() - at));
          NXDKIT_TRY(file.ReadAt(at, part));
          at += part.size();
          return part.size();
        },
        Compression::kGzip);
    return stream.Drain(poll_);
  }

  // model.pt, and model_<part>.pt of models in several parts.
  Status CheckBlobs() {
    if (!check_blob_) return OkStatus();
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry_.path));
    for (const std::string& name : names)
      if (name.ends_with(".pt")) NXDKIT_TRY(Keep(name, CheckBlob(name)));
    return OkStatus();
  }

  Status CheckBlob(const std::string& name) {
    NXDKIT_ASSIGN(const std::vector<std::string> messages, check_blob_(Path(name), poll_));
    for (const std::string& message : messages) Add(name, message);
    return OkStatus();
  }

  Status CheckManifest() {
    NXDKIT_ASSIGN(const Manifest manifest, ReadManifest(Path(kManifestFile)));
    for (const ManifestFile& file : manifest.files) NXDKIT_TRY(Keep(file.name, CheckDigest(file)));
    const bool has_payload = std::ranges::any_of(
        manifest.files, [&](const ManifestFile& file) { return file.name == entry_.payload; });
    if (!has_payload) Add(kManifestFile, fmt::format("{} is not in the manifest", entry_.payload));
    return OkStatus();
  }

  Status CheckDigest(const ManifestFile& file) {
    NXDKIT_ASSIGN(const std::string digest, DigestFile(Path(file.name), poll_));
    if (digest != file.digest)
      Add(file.name, fmt::format("{} found, the manifest says {}", digest, file.digest));
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
