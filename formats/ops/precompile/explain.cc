#include "formats/ops/precompile/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

Miss OtherFlags(const neff::Graph& graph, const neff::CacheEntry& entry) {
  Miss miss{graph.name, "flags", "", neff::EntryName(entry), {}, {}};
  const auto ours = neff::ReadFlags(graph.path);
  const auto theirs = neff::ReadFlags(entry.path);
  if (graph.file.empty()) {
    miss.message = "compiled with other flags";
    return miss;
  }
  for (const auto* flags : {&ours, &theirs})
    if (!flags->ok()) {
      miss.message =
          "compiled with other flags, which cannot be read: " + flags->error().ToString();
      return miss;
    }
  const std::vector<std::string> here = ours->value_or(std::vector<std::string>());
  const std::vector<std::string> there = theirs->value_or(std::vector<std::string>());
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
  const std::vector<neff::CacheEntry>& entries = index.listing_.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    index.by_name_.emplace(neff::EntryName(entries[i]), i);
    index.by_key_[std::string(KeyOf(entries[i].module))].push_back(i);
  }
  return index;
}

Result<bool> CacheIndex::HasResult(const neff::CacheEntry& entry) const {
  if (entry.state == neff::EntryState::kDone) return true;
  const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(tree_, entry);
  return graph.ok() && *graph && (*graph)->has_result;
}

Result<std::optional<Miss>> CacheIndex::Explain(const neff::Graph& graph) {
  if (poll_) NXDKIT_TRY(poll_());
  const auto found = by_name_.find(graph.name);
  if (found != by_name_.end()) return ExplainThere(graph, listing_.entries[found->second]);
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

Result<CacheIndex::SameFile*> CacheIndex::SameFileOf(const neff::Graph& graph) {
  const auto [found, is_new] = files_.try_emplace(JoinPath(graph.compiler, graph.file));
  SameFile& same = found->second;
  for (size_t i = 0; is_new && i < listing_.entries.size(); ++i) {
    const neff::CacheEntry& entry = listing_.entries[i];
    if (entry.compiler != graph.compiler) continue;
    if (poll_) NXDKIT_TRY(poll_());
    const Result<PathInfo> info = LookAt(JoinPath(entry.path, graph.file));
    if (info.ok() && info->kind == PathKind::kFile) same[info->bytes].unread.push_back(i);
  }
  return &same;
}

Result<std::vector<size_t>> CacheIndex::WithKey(const neff::Graph& graph) const {
  std::vector<size_t> with;
  const auto found = by_key_.find(KeyOf(BaseName(graph.name)));
  if (found == by_key_.end()) return with;
  for (const size_t i : found->second) {
    NXDKIT_ASSIGN(const bool has_result, HasResult(listing_.entries[i]));
    if (has_result) with.push_back(i);
  }
  return with;
}

// Each is read once, however many graphs have its size. A failure to read one does not keep the
// others from being reported.
Status CacheIndex::Read(const std::string& file, SameSize& same) const {
  for (const size_t i : std::exchange(same.unread, {})) {
    const Result<std::string> digest =
        neff::DigestFile(JoinPath(listing_.entries[i].path, file), poll_);
    if (digest.ok()) same.by_digest[*digest].push_back(i);
    if (!digest.ok() && digest.error().code() == Errc::kInterrupted) return digest.error();
  }
  return OkStatus();
}

// ModelBuilder's keys contain the flags: there the bytes of the graph decide.
Result<std::vector<size_t>> CacheIndex::WithBytes(const neff::Graph& graph) {
  std::vector<size_t> with;
  if (graph.file.empty()) return with;  // known only by name
  NXDKIT_ASSIGN(SameFile* const file, SameFileOf(graph));
  const std::string path = JoinPath(graph.path, graph.file);
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  const auto size = file->find(info.bytes);
  if (size == file->end()) return with;
  NXDKIT_TRY(Read(graph.file, size->second));
  NXDKIT_ASSIGN(const std::string digest, neff::DigestFile(path, poll_));
  const auto found = size->second.by_digest.find(digest);
  if (found == size->second.by_digest.end()) return with;
  for (const size_t i : found->second) {
    NXDKIT_ASSIGN(const bool has_result, HasResult(listing_.entries[i]));
    if (has_result) with.push_back(i);
  }
  return with;
}

Result<Miss> CacheIndex::ExplainAbsent(const neff::Graph& graph) {
  NXDKIT_ASSIGN(const std::vector<size_t> with_key, WithKey(graph));
  for (const size_t i : with_key)
    if (listing_.entries[i].compiler == graph.compiler)
      return OtherFlags(graph, listing_.entries[i]);
  NXDKIT_ASSIGN(const std::vector<size_t> with_bytes, WithBytes(graph));
  if (!with_bytes.empty()) return OtherFlags(graph, listing_.entries[with_bytes.front()]);
  for (const size_t i : with_key) {
    const neff::CacheEntry& entry = listing_.entries[i];
    if (entry.module == BaseName(graph.name))
      return Miss{graph.name,
                  "version",
                  fmt::format("compiled by {}, but the run has {}", entry.compiler, graph.compiler),
                  neff::EntryName(entry),
                  {},
                  {}};
  }
  return Miss{graph.name, "absent", "the cache does not have it", "", {}, {}};
}

}  // namespace nxdkit::ops
