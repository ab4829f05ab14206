#include "formats/compile_cache/relocate.h"

#include <map>
#include <optional>

#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

using NewText = Result<std::optional<std::string>>;

class Relocator {
 public:
  Relocator(const FoundTree& tree, const RelocateOptions& options)
      : root_(tree.root), options_(options), moment_(MomentOf(tree.root)), batch_(tree.root) {}

  Result<RelocateReport> Run() {
    NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(root_));
    for (const std::string& name : kernels) {
      const std::string file = JoinPath(kLiteKernelFolder, name);
      const std::string lock = JoinPath(root_, file.substr(0, file.size() - 5) + ".lock");
      NXDKIT_ASSIGN(const bool has_lock, IsThere(lock));
      NXDKIT_TRY(Change(file, has_lock && IsHeld(lock), &Relocator::NewKernel));
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
    if (in_use) return leave("in use");
    const NewText text = (this->*make)(path);
    if (!text.ok() && ExitCode(text.error().code()) > ExitCode(Errc::kUnsupported))
      return text.error();
    if (!text.ok()) return leave(text.error().message());
    if (!*text) return OkStatus();
    report_.changed.push_back({file, ""});
    return options_.dry_run ? OkStatus() : Write(path, **text);
  }

  Status Write(const std::string& path, std::string_view text) {
    const std::string aside = JoinPath(ParentPath(path), AsideName(BaseName(path)));
    NXDKIT_TRY(RemoveTree(aside));
    NXDKIT_ASSIGN(File file, File::OpenWrite(aside));
    NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(text.data(), text.size()))));
    NXDKIT_TRY(KeepAccess(path, file.fd(), aside));
    NXDKIT_TRY(file.Close());
    return batch_.Add(aside, text.size(), ParentPath(path),
                      [aside, path] { return PublishOver(aside, path); });
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
    NXDKIT_ASSIGN(const std::vector<GraphKernel> kernels, KernelsOfGraph(graph));
    std::map<std::string, std::string> moved;
    for (const GraphKernel& kernel : kernels) {
      NXDKIT_ASSIGN(const std::optional<std::string> binary, Moved(kernel.binary));
      if (binary) moved[kernel.binary] = *binary;
    }
    if (moved.empty()) return std::optional<std::string>();
    return GraphWithBinaries(graph, [&](const std::string& binary) -> std::optional<std::string> {
      const auto found = moved.find(binary);
      return found == moved.end() ? std::nullopt : std::optional<std::string>(found->second);
    });
  }

  // The new path of a binary; nullopt when it lies elsewhere.
  Result<std::optional<std::string>> Moved(const std::string& binary) {
    const std::string& from = options_.from;
    const auto is_in = [&](const std::string& folder) {
      return binary == folder || binary.starts_with(folder + "/");
    };
    // Where the new folder lies in the old one, a path that was changed before stays: who was ended
    // on the way begins again.
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
