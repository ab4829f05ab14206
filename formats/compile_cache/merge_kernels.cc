#include "formats/compile_cache/merge_kernels.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/manifest.h"
#include "lib/base/errors.h"
#include "lib/system/copy_file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr std::string_view kDigestMark = "sha256:";
constexpr size_t kPrefixOfDigest = 16;
constexpr int kMostFolders = 100;  // each needs another process to remove the folder in between

// Whether the error is one of a tree's contents, which leaves out one kernel; others end the
// command.
bool IsOfTheTree(const Error& error) {
  return ExitCode(error.code()) <= ExitCode(Errc::kUnsupported);
}

// "<16 hex>-k.klir": names of kernels' binaries collide, and two merges may copy theirs at once.
std::string NameWithDigest(const std::string& name, std::string_view digest) {
  const std::string prefix(digest.substr(kDigestMark.size(), kPrefixOfDigest));
  return name.starts_with(prefix + "-") ? name : prefix + "-" + name;
}

std::string AnotherFile(const std::string& path) {
  return fmt::format("there already: {} is another file of the name", path);
}

}  // namespace

void Withdraw(MergeReport& report, const std::string& name, const std::string& reason,
              const std::string& message) {
  const auto item = std::ranges::find(report.copied, name, &MergeItem::entry);
  if (item == report.copied.end()) return;
  report.bytes -= item->bytes;
  if (reason.empty())
    ++report.kept;
  else
    report.left.push_back({name, reason, message, item->bytes});
  report.copied.erase(item);
  std::erase_if(report.unlinked, [&](const MergeItem& each) { return each.entry == name; });
}

Status KernelMover::MergeAll() {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListLiteKernels(from_));
  for (const std::string& folder : {KernelFolder(into_), KernelBinaryFolder(into_)}) {
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(folder));
    if (info.kind != PathKind::kMissing && info.kind != PathKind::kFolder)
      return Unsupported("a link or a file, expected a folder").in(folder);
  }
  for (const std::string& name : names) {
    if (options_.poll) NXDKIT_TRY(options_.poll());
    NXDKIT_TRY(MergeOne(name));
  }
  return OkStatus();
}

Status KernelMover::MergeOne(const std::string& name) {
  Moving moving{JoinPath(kLiteKernelFolder, name), "", "", "", false};
  const auto leave = [&](const char* reason, std::string message) {
    report_.left.push_back({moving.name, reason, std::move(message), 0});
    return OkStatus();
  };
  const Result<LiteKernel> kernel = ReadLiteKernel(JoinPath(from_, moving.name));
  if (!kernel.ok() && !IsOfTheTree(kernel.error())) return kernel.error();
  if (!kernel.ok()) return leave("damaged", kernel.error().message());
  moving.ours = KernelWithoutPaths(*kernel);
  NXDKIT_TRY(FindKernelBinary(from_, kernel->binary, kernel->copy, {into_, options_.kernels})
                 .To(moving.source));
  if (moving.source.empty())
    return leave("damaged", fmt::format("the binary {} is not in the trees and not in {}",
                                        kernel->binary, options_.kernels));
  const std::string target = JoinPath(into_, moving.name);
  if (IsHeld(KernelLockPath(target))) return leave("in use", "");
  NXDKIT_ASSIGN(const bool is_there, IsThere(target));
  std::string reason = "new";
  if (is_there) {
    NXDKIT_ASSIGN(MergeItem found, Compare(moving));
    if (found.reason == "same") return ++report_.kept, OkStatus();
    moving.replaces = found.reason == "damaged" && options_.damaged;
    if (!moving.replaces) return report_.left.push_back(std::move(found)), OkStatus();
    reason = "was damaged";
  }
  const Result<std::string> brought = Bring(kernel->binary, kernel->copy);
  if (!brought.ok() && !IsOfTheTree(brought.error())) return brought.error();
  if (!brought.ok()) return leave("differs", brought.error().message());
  moving.binary = *brought;
  NXDKIT_ASSIGN(const std::string text, KernelWithBinary(*kernel, moving.binary));
  report_.copied.push_back({moving.name, reason, "", text.size()});
  report_.bytes += text.size();
  if (options_.dry_run) return OkStatus();
  const std::string aside = JoinPath(KernelFolder(into_), AsideName(name));
  NXDKIT_TRY(WriteAside(aside, text));
  return batch_.Add(aside, text.size(), KernelFolder(into_),
                    [this, aside, moving] { return Publish(aside, moving); });
}

// Renames the synced file, unless another process was faster with it or its binary.
Status KernelMover::Publish(const std::string& aside, const Moving& kernel) {
  const auto withdraw = [&](const std::string& reason, const std::string& message) {
    Withdraw(report_, kernel.name, reason, message);
    return RemoveTree(aside);
  };
  if (lost_.contains(kernel.binary)) return withdraw("differs", AnotherFile(kernel.binary));
  const std::string target = JoinPath(into_, kernel.name);
  NXDKIT_ASSIGN(const std::optional<EntryHold> hold, HoldKernel(target));
  if (!hold) return withdraw("in use", "");
  NXDKIT_ASSIGN(const bool published, PublishNew(aside, target));
  if (published) return OkStatus();
  digests_.clear();  // INTO's may have changed by now
  NXDKIT_ASSIGN(const MergeItem found, Compare(kernel));
  if (found.reason == "damaged" && kernel.replaces) return PublishOver(aside, target);
  return withdraw(found.reason == "same" ? "" : found.reason, found.message);
}

Result<MergeItem> KernelMover::Compare(const Moving& kernel) {
  const auto answer = [&](const char* reason, std::string message) {
    return MergeItem{kernel.name, reason, std::move(message), 0};
  };
  const Result<LiteKernel> theirs = ReadLiteKernel(JoinPath(into_, kernel.name));
  if (!theirs.ok() && !IsOfTheTree(theirs.error())) return theirs.error();
  if (!theirs.ok()) return answer("damaged", "there already: " + theirs.error().message());
  if (KernelWithoutPaths(*theirs) != kernel.ours)
    return answer("differs",
                  "there already, another kernel of the same name: one of them may be stale");
  NXDKIT_ASSIGN(const std::string digest, DigestAt(theirs->binary));
  if (digest.empty())
    return answer("damaged",
                  fmt::format("there already: its binary {} is not there", theirs->binary));
  NXDKIT_ASSIGN(const std::string wanted, DigestAt(kernel.source));
  if (digest != wanted)
    return answer("differs", fmt::format("there already: its binary {} has {}, that of {} has {}",
                                         theirs->binary, digest, kernel.source, wanted));
  return answer("same", "");
}

Result<std::string> KernelMover::Bring(const std::string& binary, const std::string& copy) {
  // A copy has its own name in the kernel's file.
  const auto known = brought_.find(binary);
  if (known != brought_.end() && copy.empty()) return known->second;
  NXDKIT_ASSIGN(const std::string source,
                FindKernelBinary(from_, binary, copy, {into_, options_.kernels}));
  if (source.empty()) {
    const auto only = copies_.find(binary);
    return only == copies_.end() ? std::string() : only->second;
  }
  NXDKIT_TRY(LockBinaries());
  NXDKIT_ASSIGN(const std::string digest, DigestAt(source));
  if (digest.empty()) return NotFound("it disappeared while it was read").in(source);
  if (copy.empty()) {
    const std::string name = NameWithDigest(BaseName(binary), digest);
    const std::string target = JoinPath(KernelBinaryFolder(into_), name);
    NXDKIT_TRY(BringTo(source, target, digest));
    return brought_[binary] = target;
  }
  std::string target = JoinPath(KernelFolder(into_), copy);
  NXDKIT_TRY(BringTo(source, target, digest));
  const auto [first, is_first] = copies_.emplace(binary, target);
  if (!is_first && first->second != target) first->second.clear();
  return target;
}

Result<std::string> KernelMover::DigestAt(const std::string& path) {
  if (const auto known = digests_.find(path); known != digests_.end()) return known->second;
  std::string digest;
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind == PathKind::kFile) NXDKIT_TRY(DigestFile(path, options_.poll).To(digest));
  return digests_[path] = digest;
}

Status KernelMover::BringTo(const std::string& source, const std::string& target,
                            const std::string& digest) {
  NXDKIT_ASSIGN(const std::string there, DigestAt(target));
  if (there == digest) return OkStatus();
  if (!there.empty())
    return Unsupported("there already: {} is another file than {}", target, source);
  NXDKIT_TRY(CopyAside(source, target, digest));
  digests_[target] = digest;
  return OkStatus();
}

Status KernelMover::CopyAside(const std::string& source, const std::string& target,
                              const std::string& digest) {
  if (options_.dry_run) return OkStatus();
  const std::string folder = ParentPath(target);
  NXDKIT_TRY(MakeFolders(folder));
  const std::string aside = JoinPath(folder, AsideName(BaseName(target)));
  NXDKIT_TRY(RemoveTree(aside));
  NXDKIT_TRY(CopyFileItself(source, aside, false));
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(aside));
  return batch_.Add(aside, info.bytes, folder, [this, aside, target, digest]() -> Status {
    NXDKIT_ASSIGN(const bool was_free, PublishNew(aside, target));
    if (was_free) return OkStatus();
    digests_.erase(target);
    NXDKIT_ASSIGN(const std::string there, DigestAt(target));
    if (there != digest) lost_.insert(target);
    return RemoveTree(aside);
  });
}

Status KernelMover::LockBinaries() {
  if (options_.dry_run) return OkStatus();
  const std::string folder = KernelBinaryFolder(into_);
  for (int i = 0; !lock_; ++i) {
    NXDKIT_TRY(MakeFolders(folder));
    Result<FolderLock> lock = WaitForLock(folder, FolderLock::Mode::kShared, options_.poll);
    const bool went = !lock.ok() && lock.error().code() == Errc::kNotFound && i < kMostFolders;
    if (!lock.ok() && !went) return lock.error();
    if (lock.ok()) lock_.emplace(*std::move(lock));
  }
  return OkStatus();
}

std::string KernelMover::LostOf(const std::vector<std::string>& binaries) const {
  const auto lost = std::ranges::find_if(
      binaries, [&](const std::string& binary) { return lost_.contains(binary); });
  return lost == binaries.end() ? "" : AnotherFile(*lost);
}

Result<MovedGraph> KernelMover::MoveGraph(const std::string& graph,
                                          std::vector<std::string>& missing) {
  NXDKIT_ASSIGN(const std::vector<GraphKernel> kernels, KernelsOfGraph(graph, options_.poll));
  std::map<std::string, std::string> moved;
  MovedGraph result;
  for (const GraphKernel& kernel : kernels) {
    if (moved.contains(kernel.binary)) continue;
    NXDKIT_ASSIGN(const std::string target, Bring(kernel.binary, ""));
    moved[kernel.binary] = target;
    (target.empty() ? missing : result.binaries).push_back(target.empty() ? kernel.binary : target);
  }
  const MapBinary to_target = [&](const std::string& binary) -> std::optional<std::string> {
    const std::string& target = moved[binary];
    return target.empty() ? std::nullopt : std::optional<std::string>(target);
  };
  NXDKIT_TRY(GraphWithBinaries(graph, to_target, options_.poll).To(result.text));
  return result;
}

}  // namespace nxdkit::neff
