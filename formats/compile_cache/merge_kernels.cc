#include "formats/compile_cache/merge_kernels.h"

#include <fmt/core.h>

#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/manifest.h"
#include "lib/base/errors.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr std::string_view kDigestMark = "sha256:";
constexpr size_t kPrefixOfDigest = 16;

Status WriteAside(const std::string& path, std::string_view text) {
  NXDKIT_TRY(RemoveTree(path));
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(text.data(), text.size()))));
  return file.Close();
}

}  // namespace

Status KernelMover::MergeAll(MergeReport& report) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListLiteKernels(from_));
  for (const std::string& name : {std::string(), std::string(kLiteBinaryFolder)}) {
    const std::string folder =
        name.empty() ? KernelFolder(into_) : JoinPath(KernelFolder(into_), name);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(folder));
    if (info.kind != PathKind::kMissing && info.kind != PathKind::kFolder)
      return Unsupported("a link or a file, expected a folder").in(folder);
  }
  for (const std::string& name : names) {
    if (options_.poll) NXDKIT_TRY(options_.poll());
    NXDKIT_TRY(MergeOne(name, report));
  }
  return OkStatus();
}

Status KernelMover::MergeOne(const std::string& name, MergeReport& report) {
  const std::string entry = JoinPath(kLiteKernelFolder, name);
  const auto leave = [&](const char* reason, std::string message) {
    report.left.push_back({entry, reason, std::move(message), 0});
    return OkStatus();
  };
  const Result<LiteKernel> kernel = ReadLiteKernel(JoinPath(from_, entry));
  if (!kernel.ok() && ExitCode(kernel.error().code()) > ExitCode(Errc::kUnsupported))
    return kernel.error();
  if (!kernel.ok()) return leave("damaged", kernel.error().message());
  NXDKIT_ASSIGN(const std::string source,
                FindKernelBinary(from_, kernel->binary, kernel->copy, {into_, options_.kernels}));
  if (source.empty())
    return leave("damaged", fmt::format("the binary {} is not in the trees and not in {}",
                                        kernel->binary, options_.kernels));
  const std::string target = JoinPath(into_, entry);
  const std::string lock = target.substr(0, target.size() - 5) + ".lock";
  NXDKIT_ASSIGN(const bool has_lock, IsThere(lock));
  if (has_lock && IsHeld(lock)) return leave("in use", "");
  NXDKIT_ASSIGN(const bool is_there, IsThere(target));
  std::string reason = "new";
  if (is_there) {
    NXDKIT_ASSIGN(MergeItem found, Compare(entry, target, KernelWithoutPaths(*kernel), source));
    if (found.reason == "same") return ++report.kept, OkStatus();
    const bool replaces = found.reason == "damaged" && options_.damaged;
    if (!replaces) return report.left.push_back(std::move(found)), OkStatus();
    reason = "was damaged";
  }
  const Result<std::string> brought = Bring(kernel->binary, kernel->copy);
  if (!brought.ok() && ExitCode(brought.error().code()) > ExitCode(Errc::kUnsupported))
    return brought.error();
  if (!brought.ok()) return leave("differs", brought.error().message());
  const std::string& binary = *brought;
  NXDKIT_ASSIGN(const std::string text, KernelWithBinary(*kernel, binary));
  report.copied.push_back({entry, reason, "", text.size()});
  report.bytes += text.size();
  if (options_.dry_run) return OkStatus();
  const std::string aside = JoinPath(KernelFolder(into_), AsideName(name));
  NXDKIT_TRY(WriteAside(aside, text));
  return batch_.Add(aside, text.size(), KernelFolder(into_), [aside, target, is_there]() -> Status {
    if (is_there) return PublishOver(aside, target);
    NXDKIT_ASSIGN(const bool was_free, PublishNew(aside, target));
    return was_free ? OkStatus() : RemoveTree(aside);
  });
}

Result<MergeItem> KernelMover::Compare(const std::string& name, const std::string& found,
                                       const std::string& ours, const std::string& binary) {
  const Result<LiteKernel> theirs = ReadLiteKernel(found);
  if (!theirs.ok() && ExitCode(theirs.error().code()) > ExitCode(Errc::kUnsupported))
    return theirs.error();
  if (!theirs.ok())
    return MergeItem{name, "damaged", "there already: " + theirs.error().message(), 0};
  if (KernelWithoutPaths(*theirs) != ours)
    return MergeItem{name, "differs",
                     "there already, another kernel of the same name: one of them may be stale", 0};
  NXDKIT_ASSIGN(const std::string digest, DigestAt(theirs->binary));
  if (digest.empty())
    return MergeItem{name, "damaged",
                     fmt::format("there already: its binary {} is not there", theirs->binary), 0};
  NXDKIT_ASSIGN(const std::string wanted, DigestAt(binary));
  if (digest != wanted)
    return MergeItem{name, "differs",
                     fmt::format("there already: its binary {} has {}, that of {} has {}",
                                 theirs->binary, digest, binary, wanted),
                     0};
  return MergeItem{name, "same", "", 0};
}

Result<std::string> KernelMover::Bring(const std::string& binary, const std::string& copy) {
  // A copy has its own name in the kernel's file.
  const auto known = brought_.find(binary);
  if (known != brought_.end() && copy.empty()) return known->second;
  NXDKIT_ASSIGN(const std::string source,
                FindKernelBinary(from_, binary, copy, {into_, options_.kernels}));
  if (source.empty()) return std::string();
  const std::string folder = KernelFolder(into_);
  const std::string wanted =
      JoinPath(folder, copy.empty() ? JoinPath(kLiteBinaryFolder, BaseName(binary)) : copy);
  NXDKIT_ASSIGN(const std::string target, FreeName(source, wanted, copy.empty()));
  brought_.emplace(binary, target);
  return target;
}

Result<std::string> KernelMover::DigestAt(const std::string& path) {
  if (const auto known = digests_.find(path); known != digests_.end()) return known->second;
  std::string digest;
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind == PathKind::kFile) NXDKIT_TRY(DigestFile(path, options_.poll).To(digest));
  return digests_[path] = digest;
}

// The wanted path where nothing else lies there; else, where that may be, one that begins with the
// digest.
Result<std::string> KernelMover::FreeName(const std::string& source, const std::string& wanted,
                                          bool may_differ) {
  NXDKIT_ASSIGN(const std::string digest, DigestAt(source));
  if (digest.empty()) return NotFound("it went while it was looked at").in(source);
  const std::string hex = digest.substr(kDigestMark.size(), kPrefixOfDigest);
  const std::string other =
      JoinPath(ParentPath(wanted), fmt::format("{}-{}", hex, BaseName(wanted)));
  for (const std::string& target : {wanted, other}) {
    if (target == other && !may_differ) break;
    NXDKIT_ASSIGN(const std::string there, DigestAt(target));
    if (there == digest) return target;
    if (!there.empty()) continue;
    digests_[target] = digest;
    NXDKIT_TRY(CopyAside(source, target));
    return target;
  }
  return Unsupported("there already: {} is another file than {}", wanted, source);
}

Status KernelMover::CopyAside(const std::string& source, const std::string& target) {
  if (options_.dry_run) return OkStatus();
  const std::string folder = ParentPath(target);
  NXDKIT_TRY(MakeFolders(folder));
  const std::string aside = JoinPath(folder, AsideName(BaseName(target)));
  NXDKIT_TRY(RemoveTree(aside));
  NXDKIT_TRY(CopyFile(source, aside, false));
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(aside));
  return batch_.Add(aside, info.bytes, folder, [aside, target]() -> Status {
    NXDKIT_ASSIGN(const bool was_free, PublishNew(aside, target));
    return was_free ? OkStatus() : RemoveTree(aside);
  });
}

Result<std::optional<std::string>> KernelMover::MoveGraph(const std::string& graph,
                                                          std::vector<std::string>& missing) {
  NXDKIT_ASSIGN(const std::vector<GraphKernel> kernels, KernelsOfGraph(graph));
  std::map<std::string, std::string> moved;
  for (const GraphKernel& kernel : kernels) {
    if (moved.contains(kernel.binary)) continue;
    NXDKIT_TRY(Bring(kernel.binary, "").To(moved[kernel.binary]));
    if (moved[kernel.binary].empty()) missing.push_back(kernel.binary);
  }
  return GraphWithBinaries(graph, [&](const std::string& binary) -> std::optional<std::string> {
    const std::string& target = moved[binary];
    return target.empty() ? std::nullopt : std::optional<std::string>(target);
  });
}

}  // namespace nxdkit::neff
