#include "formats/ops/precompile/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/manifest.h"
#include "formats/ops/precompile/compiler.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

// "50a122f44c378e1567a4" of "MODULE_50a122f44c378e1567a4+d7cde3b5".
std::string_view KeyOf(std::string_view module) { return module.substr(0, module.find('+')); }

std::vector<std::string> Without(const std::vector<std::string>& flags,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> out;
  for (const std::string& flag : flags)
    if (std::ranges::find(others, flag) == others.end()) out.push_back(flag);
  return out;
}

std::string FlagList(const std::vector<std::string>& flags) {
  return flags.empty() ? "no more" : fmt::format("{}", fmt::join(flags, " "));
}

Result<std::vector<std::string>> FlagsOf(const std::string& folder) {
  NXDKIT_ASSIGN(const std::optional<std::vector<std::string>> flags, neff::ReadFlags(folder));
  return flags.value_or(std::vector<std::string>());
}

Result<Miss> OtherFlags(const neff::Graph& graph, const neff::CacheEntry& entry) {
  Miss miss{graph.name, "flags", "", neff::EntryName(entry), {}, {}};
  NXDKIT_ASSIGN(const std::vector<std::string> here, FlagsOf(graph.path));
  NXDKIT_ASSIGN(const std::vector<std::string> there, FlagsOf(entry.path));
  miss.only_here = Without(here, there);
  miss.only_there = Without(there, here);
  miss.message = miss.only_here.empty() && miss.only_there.empty()
                     ? "compiled with the same flags in another order"
                     : fmt::format("compiled with other flags: {} here, {} there",
                                   FlagList(miss.only_here), FlagList(miss.only_there));
  return miss;
}

}  // namespace

Result<CacheIndex> CacheIndex::Open(const std::string& root, const std::function<Status()>& poll) {
  CacheIndex index;
  index.poll_ = poll;
  NXDKIT_TRY(neff::FindTree(root).To(index.tree_));
  index.listing_.root = root;
  NXDKIT_ASSIGN(const bool there, IsFolder(root));
  if (there)
    NXDKIT_TRY(neff::ListTreeOf(index.tree_, neff::MomentOf(index.tree_.root)).To(index.listing_));
  return index;
}

Result<bool> CacheIndex::HasResult(const neff::CacheEntry& entry) const {
  if (entry.state == neff::EntryState::kDone) return true;
  const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(tree_, entry);
  if (!graph.ok() && graph.error().code() == Errc::kIo) return graph.error();
  return graph.ok() && *graph && (*graph)->has_result;
}

Result<std::optional<Miss>> CacheIndex::Explain(const neff::Graph& graph) const {
  for (const neff::CacheEntry& entry : listing_.entries)
    if (neff::EntryName(entry) == graph.name) return ExplainThere(graph, entry);
  NXDKIT_ASSIGN(Miss miss, ExplainAbsent(graph));
  return std::optional<Miss>(std::move(miss));
}

Result<std::optional<Miss>> CacheIndex::ExplainThere(const neff::Graph& graph,
                                                     const neff::CacheEntry& entry) const {
  NXDKIT_ASSIGN(const bool has_result, HasResult(entry));
  if (has_result) return std::optional<Miss>();
  Miss miss{graph.name, "not compiled", "the graph is there, and no result", "", {}, {}};
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry.path));
  const bool has_lock =
      std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".lock"); });
  if (entry.state == neff::EntryState::kFailed) {
    miss.reason = "failed";
    miss.message = "it failed before: " + TellingLineOf(JoinPath(entry.path, neff::kFailureFile));
  } else if (neff::AnyLockHeld(entry.path)) {
    miss.reason = "being compiled";
    miss.message = "another process works on it now";
  } else if (has_lock) {
    miss.reason = "locked";
    miss.message = "the process that locked it is gone, and left no result";
  }
  return std::optional<Miss>(std::move(miss));
}

Result<bool> CacheIndex::IsSameGraph(const neff::Graph& graph,
                                     const neff::CacheEntry& entry) const {
  const std::string ours = JoinPath(graph.path, graph.file);
  const std::string theirs = JoinPath(entry.path, graph.file);
  NXDKIT_ASSIGN(const PathInfo a, LookAt(ours));
  NXDKIT_ASSIGN(const PathInfo b, LookAt(theirs));
  if (b.kind != PathKind::kFile || a.bytes != b.bytes) return false;
  NXDKIT_ASSIGN(const std::string x, neff::DigestFile(ours, poll_));
  NXDKIT_ASSIGN(const std::string y, neff::DigestFile(theirs, poll_));
  return x == y;
}

Result<Miss> CacheIndex::ExplainAbsent(const neff::Graph& graph) const {
  const std::string module = BaseName(graph.name);
  const neff::CacheEntry* version = nullptr;
  for (const neff::CacheEntry& entry : listing_.entries) {
    if (poll_) NXDKIT_TRY(poll_());
    const bool same_compiler = entry.compiler == graph.compiler;
    // ModelBuilder's keys have the flags in them: there the bytes of the graph decide.
    bool same_graph = KeyOf(entry.module) == KeyOf(module);
    if (!same_graph && same_compiler) NXDKIT_TRY(IsSameGraph(graph, entry).To(same_graph));
    if (!same_graph) continue;
    NXDKIT_ASSIGN(const bool has_result, HasResult(entry));
    if (!has_result) continue;
    if (same_compiler) return OtherFlags(graph, entry);
    if (entry.module == module) version = &entry;
  }
  if (version != nullptr)
    return Miss{
        graph.name,
        "version",
        fmt::format("compiled by {}, and the run has {}", version->compiler, graph.compiler),
        neff::EntryName(*version),
        {},
        {}};
  return Miss{graph.name, "absent", "the cache does not have it", "", {}, {}};
}

}  // namespace nxdkit::ops
