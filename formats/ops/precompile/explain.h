// Why a cache has no result of a graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"

namespace nxdkit::ops {

struct Miss {
  std::string entry;
  // "flags": compiled with others; "version": by another compiler; "failed", "locked": by a process
  // that is gone; "being compiled"; "not compiled": the graph alone is there; "absent"
  std::string reason;
  std::string message;  // a sentence of it
  std::string other;    // the entry that has the result, for "flags" and "version"
  std::vector<std::string> only_here, only_there;  // flags
};

// Looks graphs up in one cache, which need not be there.
class CacheIndex {
 public:
  static Result<CacheIndex> Open(const std::string& root, const std::function<Status()>& poll);

  // nullopt: there is a result, and the run compiles nothing for it.
  Result<std::optional<Miss>> Explain(const neff::Graph& graph) const;
  const neff::FoundTree& tree() const { return tree_; }

 private:
  Result<std::optional<Miss>> ExplainThere(const neff::Graph& graph,
                                           const neff::CacheEntry& entry) const;
  Result<Miss> ExplainAbsent(const neff::Graph& graph) const;
  Result<bool> HasResult(const neff::CacheEntry& entry) const;
  Result<bool> IsSameGraph(const neff::Graph& graph, const neff::CacheEntry& entry) const;

  neff::FoundTree tree_;
  neff::CacheListing listing_;
  std::function<Status()> poll_;
};

}  // namespace nxdkit::ops
