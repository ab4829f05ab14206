#include "formats/compile_cache/relocate.h"

#include <map>
#include <optional>
#include <vector>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr char kGone[] = "gone";
constexpr char kInUse[] = "in use";

using NewText = Result<std::optional<std::string>>;

class Relocator {
 public:
  Relocator(const FoundTree& tree, const RelocateOptions& options)
      : root_(tree.root), options_(options), moment_(MomentOf(tree.root)), batch_(tree.root) {}

  Result<RelocateReport> Run() {
    NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(root_));
    for (const std::string& name : kernels) {
      const std::string file = JoinPath(kLiteKernelFolder, name);
      NXDKIT_TRY(
          Change(file, IsHeld(JoinPath(root_, KernelLockPath(file))), &Relocator::NewKernel));
    }
    NXDKIT_ASSIGN(const CacheListing listing, ListLiteTree(root_, moment_));
    for (const CacheEntry& entry : listing.entries)
      NXDKIT_TRY(Change(JoinPath(entry.module, kLiteGraphFile), entry.state == EntryState::kLocked,
                        &Relocator::NewGraph));
    NXDKIT_TRY(batch_.Flush());
    return std::move(report_);
  }

 private:
  Status Change(const std::string& file, bool in_use,
                NewText (Relocator::*make)(const std::string&)) {
    if (options_.poll) NXDKIT_TRY(options_.poll());
    const std::string path = JoinPath(root_, file);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
    if (info.kind != PathKind::kFile) return OkStatus();
    ++report_.looked_at;
    const auto leave = [&](std::string reason) {
      report_.left.push_back({file, std::move(reason)});
      return OkStatus();
    };
    if (in_use) return leave(kInUse);
    const NewText text = (this->*make)(path);
    if (!text.ok() && ExitCode(text.error().code()) > ExitCode(Errc::kUnsupported))
      return text.error();
    if (!text.ok() && text.error().code() == Errc::kNotFound) return leave(kGone);
    if (!text.ok()) return leave(text.error().message());
    if (!*text) return OkStatus();
    report_.changed.push_back({file, ""});
    return options_.dry_run ? OkStatus() : Write(file, info, **text);
  }

  // `read`: the file's state when it was read.
  Status Write(const std::string& file, const PathInfo& read, std::string_view text) {
    const std::string path = JoinPath(root_, file);
    const std::string aside = JoinPath(ParentPath(path), AsideName(BaseName(path)));
    const Status written = WriteAside(aside, text, path);
    NXDKIT_ASSIGN(const bool there, IsThere(path));
    if (!there) return TakeBack(file, aside, kGone);
    NXDKIT_TRY(written);
    return batch_.Add(aside, text.size(), ParentPath(path),
                      [this, file, read, aside] { return Publish(file, read, aside); });
  }

  // Replaces the file under the lock of the entry or kernel, if it is still the one that was read.
  Status Publish(const std::string& file, const PathInfo& read, const std::string& aside) {
    const std::string path = JoinPath(root_, file);
    const bool is_kernel = ParentPath(file) == kLiteKernelFolder;
    NXDKIT_ASSIGN(const std::optional<EntryHold> hold,
                  is_kernel ? HoldKernel(path)
                            : HoldEntry({root_, TreeKind::kLite, false}, ParentPath(file),
                                        {moment_, "", false}));
    if (!hold) return TakeBack(file, aside, kInUse);
    NXDKIT_ASSIGN(const PathInfo now, LookAtLink(path));
    if (now.kind == PathKind::kMissing) return TakeBack(file, aside, kGone);
    if (now.inode != read.inode || now.device != read.device || now.written_ns != read.written_ns)
      return TakeBack(file, aside, "changed meanwhile");
    return PublishOver(aside, path);
  }

  Status TakeBack(const std::string& file, const std::string& aside, const char* reason) {
    std::erase_if(report_.changed, [&](const Relocated& each) { return each.file == file; });
    report_.left.push_back({file, reason});
    return RemoveTree(aside);
  }

  NewText NewKernel(const std::string& path) {
    NXDKIT_ASSIGN(const LiteKernel kernel, ReadLiteKernel(path));
    NXDKIT_ASSIGN(const std::optional<std::string> binary, Moved(kernel.binary));
    if (!binary) return std::optional<std::string>();
    NXDKIT_ASSIGN(std::string text, KernelWithBinary(kernel, *binary));
    return std::optional<std::string>(std::move(text));
  }

  NewText NewGraph(const std::string& path) {
    NXDKIT_ASSIGN(const std::string graph, ReadSmallFile(path, kMaxGraphBytes));
    NXDKIT_ASSIGN(const std::vector<GraphKernel> kernels, KernelsOfGraph(graph, options_.poll));
    std::map<std::string, std::string> moved;
    for (const GraphKernel& kernel : kernels) {
      NXDKIT_ASSIGN(const std::optional<std::string> binary, Moved(kernel.binary));
      if (binary) moved[kernel.binary] = *binary;
    }
    if (moved.empty()) return std::optional<std::string>();
    const MapBinary map = [&](const std::string& binary) -> std::optional<std::string> {
      const auto found = moved.find(binary);
      return found == moved.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    return GraphWithBinaries(graph, map, options_.poll);
  }

  // The new path of a binary; nullopt when it is elsewhere.
  Result<std::optional<std::string>> Moved(const std::string& binary) {
    const std::string& from = options_.from;
    const auto is_in = [&](const std::string& folder) {
      return binary == folder || binary.starts_with(folder + "/");
    };
    // Where the new folder is inside the old one, a path changed earlier stays: after an
    // interruption the command is simply run again.
    const bool changed_before = options_.to.starts_with(from + "/") && is_in(options_.to);
    if (!is_in(from) || changed_before) return std::optional<std::string>();
    std::string moved = options_.to + binary.substr(from.size());
    if (!asked_.emplace(moved, true).second) return std::optional<std::string>(std::move(moved));
    NXDKIT_ASSIGN(const bool there, IsFile(moved));
    if (!there) report_.missing.push_back(moved);
    return std::optional<std::string>(std::move(moved));
  }

  const std::string& root_;
  const RelocateOptions& options_;
  TreeMoment moment_;
  Batch batch_;
  std::map<std::string, bool> asked_;
  RelocateReport report_;
};

}  // namespace

Result<RelocateReport> RelocateKernels(const FoundTree& tree, const RelocateOptions& options) {
  if (!options.from.starts_with('/') || !options.to.starts_with('/'))
    return BadUsage("\"{}\" and \"{}\" found, absolute paths expected", options.from, options.to);
  if (tree.kind != TreeKind::kLite)
    return Unsupported("a tree of {}: nothing in it names the binary of a kernel",
                       TreeName(tree.kind))
        .in(tree.root);
  return Relocator(tree, options).Run();
}

}  // namespace nxdkit::neff
