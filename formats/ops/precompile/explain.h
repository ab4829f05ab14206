// The reason why a cache has no result for a graph.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"

namespace nxdkit::ops {

struct Miss {
  std::string entry;
  // "flags": compiled with others; "version": by another compiler; "failed", "locked": by a process
  // that is gone; "being compiled"; "not compiled": only the graph exists; "absent"
  std::string reason;
  std::string message;  // in one sentence
  std::string other;    // the entry that has the result, for "flags" and "version"
  std::vector<std::string> only_here, only_there;  // flags
};

// Looks graphs up in one cache, which need not exist. The time does not grow with the number of
// entries, except for the first graph of each compiler that is not found by its key.
class CacheIndex {
 public:
  static Result<CacheIndex> Open(const std::string& root, const std::function<Status()>& poll);

  // nullopt if there is a result, and the run need not compile it.
  Result<std::optional<Miss>> Explain(const neff::Graph& graph);
  const neff::FoundTree& tree() const { return tree_; }

 private:
  // Graphs of one size. Entries are numbers in the listing.
  struct SameSize {
    std::vector<size_t> unread;
    std::map<std::string, std::vector<size_t>> by_digest;
  };
  // The graphs of one compiler in files of one name, by size.
  using SameFile = std::map<uint64_t, SameSize>;

  Result<std::optional<Miss>> ExplainThere(const neff::Graph& graph,
                                           const neff::CacheEntry& entry) const;
  Result<Miss> ExplainAbsent(const neff::Graph& graph);
  Result<bool> HasResult(const neff::CacheEntry& entry) const;
  Result<SameFile*> SameFileOf(const neff::Graph& graph);
  Status Read(const std::string& file, SameSize& same) const;
  // Entries with a result for the same graph, by key or by bytes.
  Result<std::vector<size_t>> WithKey(const neff::Graph& graph) const;
  Result<std::vector<size_t>> WithBytes(const neff::Graph& graph);

  neff::FoundTree tree_;
  neff::CacheListing listing_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, std::vector<size_t>, std::less<>> by_key_;
  std::map<std::string, SameFile> files_;  // by the compiler and the file's name
  std::function<Status()> poll_;
};

}  // namespace nxdkit::ops
