#include "formats/compile_cache/verify_entry.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/manifest.h"
#include "lib/compress/decompressor.h"
#include "lib/hash/digest.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxFlagsBytes = 1 << 20;

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
      Add(kManifestFile, "missing: model.pt cannot be checked without it");
    return std::move(faults_);
  }

 private:
  void Add(std::string file, std::string message) {
    faults_.push_back({std::move(file), std::move(message)});
  }
  std::string Path(std::string_view name) const { return JoinPath(entry_.path, name); }
  Result<bool> Has(std::string_view name) const { return IsFile(Path(name)); }

  Status Keep(const std::string& file, const Status& checked) {
    return KeepFault(file, checked, faults_);
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
    NXDKIT_ASSIGN(const std::vector<std::string> messages, NeffFaults(Path(kNeffFile), poll_));
    for (const std::string& message : messages) Add(kNeffFile, message);
    return OkStatus();
  }

  // The checksum of the graph, where it is stored compressed.
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

  // model.pt, and model_<part>.pt for models in several parts.
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

bool IsDamaged(const std::vector<EntryFault>& faults) {
  return std::ranges::any_of(
      faults, [](const EntryFault& fault) { return fault.severity == Severity::kDamage; });
}

Result<std::vector<EntryFault>> VerifyEntry(const CacheEntry& entry,
                                            const std::function<Status()>& poll,
                                            const BlobCheck& check_blob) {
  if (entry.state != EntryState::kDone) return std::vector<EntryFault>();
  return Verifier(entry, poll, check_blob).Run();
}

}  // namespace nxdkit::neff
