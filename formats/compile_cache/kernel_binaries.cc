#include "formats/compile_cache/kernel_binaries.h"

#include <utility>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

using Names = std::optional<std::set<std::string>>;

// A file that does not say what it names is not an error; a disk that fails is one.
Result<Names> NobodyKnows(const Error& error) {
  if (ExitCode(error.code()) > ExitCode(Errc::kUnsupported)) return error;
  return Names();
}

}  // namespace

Result<std::vector<KernelBinary>> ListKernelBinaries(const std::string& root) {
  std::vector<KernelBinary> binaries;
  const std::string folder = JoinPath(kLiteKernelFolder, kLiteBinaryFolder);
  NXDKIT_ASSIGN(const bool is_folder, IsRealFolder(JoinPath(root, folder)));
  if (!is_folder) return binaries;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(JoinPath(root, folder)));
  for (const std::string& base : names) {
    const std::string name = JoinPath(folder, base);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(JoinPath(root, name)));
    if (info.kind == PathKind::kFile && !LiteLeftover(name))
      binaries.push_back({name, info.bytes, info.written_ns});
  }
  return binaries;
}

Result<Names> NamedBinaries(const CacheListing& listing, const std::set<std::string>& goes,
                            const std::function<Status()>& poll) {
  std::set<std::string> names;
  NXDKIT_ASSIGN(const std::vector<std::string> kernels, ListLiteKernels(listing.root));
  for (const std::string& name : kernels) {
    const std::string file = JoinPath(kLiteKernelFolder, name);
    if (goes.contains(file)) continue;
    const Result<LiteKernel> kernel = ReadLiteKernel(JoinPath(listing.root, file));
    if (!kernel.ok()) return NobodyKnows(kernel.error());
    names.insert(BaseName(kernel->binary));
    names.insert(BaseName(kernel->copy));
  }
  for (const CacheEntry& entry : listing.entries) {
    if (poll) NXDKIT_TRY(poll());
    if (goes.contains(EntryName(entry))) continue;
    const Result<std::string> graph =
        ReadSmallFile(JoinPath(entry.path, kLiteGraphFile), kMaxGraphBytes);
    if (!graph.ok() && graph.error().code() == Errc::kNotFound) continue;
    if (!graph.ok()) return NobodyKnows(graph.error());
    const Result<std::vector<GraphKernel>> found = KernelsOfGraph(*graph, poll);
    if (!found.ok()) return NobodyKnows(found.error());
    for (const GraphKernel& each : *found) names.insert(BaseName(each.binary));
  }
  return Names(std::move(names));
}

}  // namespace nxdkit::neff
