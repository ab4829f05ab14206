#include "formats/compile_cache/lite_verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_metadata.h"
#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxSmallBytes = 1 << 20;      // marker and command
constexpr uint64_t kMaxMetadataBytes = 64 << 20;  // its lists grow with the inputs of a graph
// All claims about the engine come from its source.
constexpr char kTakesItForAHit[] = "the engine counts it as a hit (read from its source, not run)";
constexpr char kNotThere[] =
    "which does not exist: compiling it fails with NCC_EVRF059 (a third party's measurement)";

class LiteVerifier {
 public:
  LiteVerifier(const CacheEntry& entry, const std::function<Status()>& poll, BinaryLooker* kernels)
      : entry_(entry), poll_(poll), kernels_(kernels), neff_(LiteNeffName(entry.module)) {}

  Result<std::vector<EntryFault>> Run() {
    if (entry_.state == EntryState::kLocked) return std::vector<EntryFault>();
    NXDKIT_TRY(ListFolder(entry_.path).To(names_));
    CheckNames();
    const KeepAccessTime keep(Path(neff_));
    NXDKIT_TRY(Check(kLiteMarkerFile, Severity::kDamage, &LiteVerifier::CheckMarker));
    NXDKIT_TRY(Check(neff_, Severity::kDamage, &LiteVerifier::CheckNeff));
    NXDKIT_TRY(Check(kLiteMetadataFile, Severity::kDamage, &LiteVerifier::CheckMetadata));
    if (Has(kLiteCommandFile))
      NXDKIT_TRY(Check(kLiteCommandFile, Severity::kRemark, &LiteVerifier::CheckCommand));
    NXDKIT_TRY(Check(kLiteGraphFile, Severity::kWrong, &LiteVerifier::CheckGraph));
    return std::move(faults_);
  }

 private:
  void Add(std::string file, std::string message, Severity severity = Severity::kDamage) {
    faults_.push_back({std::move(file), std::move(message), severity});
  }
  std::string Path(std::string_view name) const { return JoinPath(entry_.path, name); }
  bool Has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

  void CheckNames() {
    for (const std::string& name : names_) {
      if (name.ends_with(".neff") && name != neff_)
        Add(name, fmt::format("the engine never looks for it, but for {}", neff_),
            Severity::kRemark);
      if (IsLiteMetadataName(name) && name != kLiteMetadataFile)
        Add(name, "the engine reads version 0 only", Severity::kRemark);
    }
  }

  // Checks one file that must exist, and not as a link.
  Status Check(const std::string& name, Severity severity, Status (LiteVerifier::*check)()) {
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(Path(name)));
    if (info.kind == PathKind::kFile) return KeepFault(name, (this->*check)(), faults_, severity);
    if (info.kind != PathKind::kMissing)
      Add(name, "a link or a folder, expected a file", severity);
    else if (entry_.state == EntryState::kDone)
      Add(name, "missing", severity);
    else
      Add(name, "missing: the engine compiles the graph again (read from its source, not run)",
          severity);
    return OkStatus();
  }

  Status CheckMarker() {
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(Path(kLiteMarkerFile), kMaxSmallBytes));
    NXDKIT_ASSIGN(const LiteMarker marker, ParseLiteMarker(text));
    NXDKIT_ASSIGN(const PathInfo neff, LookAtLink(Path(neff_)));
    if (neff.kind == PathKind::kFile && neff.bytes != marker.neff_bytes)
      Add(neff_, fmt::format("{} bytes found, {} says {}: {}", neff.bytes, kLiteMarkerFile,
                             marker.neff_bytes, kTakesItForAHit));
    return OkStatus();
  }

  Status CheckNeff() {
    Result<std::vector<std::string>> messages = NeffFaults(Path(neff_), poll_);
    if (!messages.ok() && messages.error().code() == Errc::kCorrupt)
      return Error(Errc::kCorrupt,
                   fmt::format("{}: {}", messages.error().message(), kTakesItForAHit))
          .at(messages.error().offset().value_or(0));
    if (!messages.ok()) return messages.error();
    for (const std::string& message : *messages)
      Add(neff_, fmt::format("{}: {}", message, kTakesItForAHit));
    NXDKIT_ASSIGN(const File file, File::OpenRead(Path(neff_)));
    NXDKIT_ASSIGN(Located located, ReadAt(file, 0, file.bytes()));
    header_ = std::move(located.header);
    return OkStatus();
  }

  Status CheckMetadata() {
    NXDKIT_ASSIGN(const std::string text,
                  ReadSmallFile(Path(kLiteMetadataFile), kMaxMetadataBytes));
    NXDKIT_ASSIGN(const std::vector<std::string> messages, MetadataFaults(text, entry_.module));
    for (const std::string& message : messages) Add(kLiteMetadataFile, message);
    return OkStatus();
  }

  Status CheckCommand() {
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(Path(kLiteCommandFile), kMaxSmallBytes));
    for (EntryFault& fault : CommandFaults(text, entry_.module, header_))
      Add(kLiteCommandFile, std::move(fault.message), fault.severity);
    return OkStatus();
  }

  Status CheckGraph() {
    if (poll_) NXDKIT_TRY(poll_());
    NXDKIT_ASSIGN(const std::string graph, ReadSmallFile(Path(kLiteGraphFile), kMaxGraphBytes));
    const Result<std::vector<GraphKernel>> kernels = KernelsOfGraph(graph, poll_);
    // The engine still reads a kernel that we cannot find.
    if (!kernels.ok() && kernels.error().code() == Errc::kUnsupported)
      return KeepFault(kLiteGraphFile, kernels.error(), faults_, Severity::kRemark);
    if (!kernels.ok()) return kernels.error();
    if (kernels_ == nullptr) return OkStatus();
    for (const GraphKernel& kernel : *kernels) {
      const std::string& fault = kernels_->FaultOf(kernel.binary);
      if (!fault.empty())
        Add(kLiteGraphFile, fmt::format("offset {}: {}", kernel.offset, fault), Severity::kWrong);
    }
    return OkStatus();
  }

  const CacheEntry& entry_;
  const std::function<Status()>& poll_;
  BinaryLooker* kernels_;
  std::string neff_;
  std::vector<std::string> names_;
  std::optional<Header> header_;
  std::vector<EntryFault> faults_;
};

// An abandoned owner's file in the root, for an entry that is not finished: when one is finished,
// the engine releases the lock and leaves the file.
Status VerifyOwner(const CacheListing& listing, const std::string& name, const TreeMoment& moment,
                   std::vector<EntryFault>& faults) {
  const std::optional<std::string> key = KeyOfOwnerFile(name);
  if (!key) return OkStatus();
  const auto entry = std::ranges::lower_bound(listing.entries, *key, {}, &CacheEntry::module);
  if (entry != listing.entries.end() && entry->module == *key && entry->state == EntryState::kDone)
    return OkStatus();
  NXDKIT_ASSIGN(const OwnerState owner, AskOwner(listing.root, *key, moment));
  if (owner == OwnerState::kDead)
    faults.push_back({name,
                      "its process is gone: programs that wait for the entry are told to try again "
                      "(read from the engine's source, not run)"});
  return OkStatus();
}

// Folders that hold an entry and are not named by a key.
Status VerifyStranger(const std::string& root, const std::string& name,
                      std::vector<EntryFault>& faults) {
  if (ParseLeftover(name)) return OkStatus();
  const std::string path = JoinPath(root, name);
  NXDKIT_ASSIGN(const bool folder, IsRealFolder(path));
  if (!folder) return OkStatus();
  for (const char* file : {kLiteMarkerFile, kLiteGraphFile}) {
    NXDKIT_ASSIGN(const bool there, IsThere(JoinPath(path, file)));
    if (!there) continue;
    faults.push_back(
        {name, "the name is not 32 hexadecimal digits: the engine never looks for the entry"});
    break;
  }
  return OkStatus();
}

}  // namespace

const std::string& BinaryLooker::FaultOf(const std::string& binary) {
  const auto [seen, is_new] = seen_.try_emplace(binary);
  std::string& fault = seen->second;
  if (!is_new) return fault;
  const std::string names = "names the kernel binary " + binary + ", ";
  if (!binary.starts_with('/')) return fault = names + "expected an absolute path";
  const Result<PathInfo> info = LookAt(binary);
  if (!info.ok())
    fault = names + "which cannot be looked at: " + info.error().message();
  else if (info->kind != PathKind::kFile)
    fault = names + kNotThere;
  return fault;
}

Result<std::vector<EntryFault>> VerifyLiteEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll,
                                                BinaryLooker* kernels) {
  return LiteVerifier(entry, poll, kernels).Run();
}

Result<std::vector<EntryFault>> VerifyLiteKernel(const std::string& root, const std::string& name,
                                                 BinaryLooker& binaries) {
  std::vector<EntryFault> faults;
  const std::string file = JoinPath(kLiteKernelFolder, name);
  const Result<LiteKernel> kernel = ReadLiteKernel(JoinPath(root, file));
  if (!kernel.ok()) {
    NXDKIT_TRY(KeepFault(file, kernel.error(), faults));
    return faults;
  }
  const std::string& fault = binaries.FaultOf(kernel->binary);
  if (!fault.empty()) faults.push_back({file, fault});
  if (kernel->copy.empty()) return faults;
  NXDKIT_ASSIGN(const PathInfo copy, LookAtLink(JoinPath(KernelFolder(root), kernel->copy)));
  if (copy.kind != PathKind::kFile)
    faults.push_back({file, fmt::format("names the copy {}, which does not exist", kernel->copy)});
  return faults;
}

Result<std::vector<EntryFault>> VerifyBesideLite(const CacheListing& listing,
                                                 const TreeMoment& moment, BinaryLooker& kernels,
                                                 const std::function<Status()>& poll) {
  std::vector<EntryFault> faults;
  const std::string& root = listing.root;
  NXDKIT_ASSIGN(const std::vector<std::string> files, ListLiteKernels(root));
  for (const std::string& file : files) {
    if (poll) NXDKIT_TRY(poll());
    NXDKIT_ASSIGN(std::vector<EntryFault> found, VerifyLiteKernel(root, file, kernels));
    std::ranges::move(found, std::back_inserter(faults));
  }
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(root));
  for (const std::string& name : names) NXDKIT_TRY(VerifyOwner(listing, name, moment, faults));
  NXDKIT_ASSIGN(const std::vector<std::string> abandoned, AbandonedInLiteTree(listing, moment));
  for (const std::string& name : abandoned)
    faults.push_back({name, "a leftover of a dead process"});
  for (const std::string& name : listing.strangers) NXDKIT_TRY(VerifyStranger(root, name, faults));
  return faults;
}

}  // namespace nxdkit::neff
