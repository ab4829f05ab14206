// The compile cache: one folder for each compiled graph, named after its input.
//
// ROOT/neuronxcc-<compiler version>/MODULE_<key>+<hash of the flags>/model.neff, model.done, ...
//
// The layout is that of the vendor's libraries; our own entries have model.pt instead of
// model.neff, and a manifest. Facts: FORMAT.md. Several processes may work on one cache: an entry
// is used, made and removed under a lock (flock) of its folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::neff {

inline constexpr char kDefaultCacheRoot[] = "/var/tmp/neuron-compile-cache";
inline constexpr char kUnknownCompiler[] = "neuronxcc-unknown";

// Names of files in an entry.
inline constexpr char kDoneFile[] = "model.done";    // empty; written last
inline constexpr char kNeffFile[] = "model.neff";    // vendor's entries
inline constexpr char kBlobFile[] = "model.pt";      // our entries
inline constexpr char kFailureFile[] = "model.log";  // a compilation that failed
inline constexpr char kFlagsFile[] = "compile_flags.json";
inline constexpr char kOldFlagsFile[] = "compile_flags.txt";
inline constexpr char kGraphFile[] = "model.graph.json";
inline constexpr char kManifestFile[] = "nxdkit-entry.json";
// Our own folders in the root: for entries being removed, and being merged.
inline constexpr char kTrashPrefix[] = ".nxdkit-removed-";
inline constexpr char kMergePrefix[] = ".nxdkit-merge";
inline constexpr char kMakingFile[] = "nxdkit-entry.lock";  // in our entries, while they are made

// The inputs from which an entry's name is derived.
struct CacheKey {
  std::string graph;       // canonical text of the compiler's input
  std::string flags_json;  // contents of compile_flags.json
  std::string module;      // "MODULE_<20 hex>+<8 hex>"
};
// `flags` are stored as Python's json.dumps writes them; the key is SHA-256 over the graph and the
// flags without spaces, the hash of the flags is MD5 over compile_flags.json.
CacheKey MakeKey(std::string graph, const std::vector<std::string>& flags);

enum class EntryState : uint8_t {
  kDone,    // a payload and model.done
  kFailed,  // model.log and no payload
  kLocked,  // a *.lock file: being made, or left by a process that died
  kEmpty,   // anything else, including a payload without model.done
};
std::string_view StateName(EntryState state);  // "done", "failed", "locked", "empty"

struct CacheEntry {
  std::string compiler;  // "neuronxcc-2.21.33363.0+82129205"
  std::string module;    // "MODULE_..."
  std::string path;
  EntryState state = EntryState::kEmpty;
  std::string payload;     // "model.neff", "model.pt" or ""
  uint64_t files = 0;      // of the whole folder; links are not followed
  uint64_t bytes = 0;      //
  int64_t used_ns = 0;     // when it was made or last used, since 1970
  bool well_named = true;  // MODULE_<letters and digits>+<8 hex>
};

struct CacheListing {
  std::string root;
  std::vector<CacheEntry> entries;     // sorted by compiler, then module
  std::vector<std::string> strangers;  // other names in the root and in the compilers' folders
  uint64_t bytes = 0;                  // of the entries
};

// kNotFound when there is no such folder. An entry that disappears meanwhile is left out.
Result<CacheListing> ListCache(const std::string& root);
// Whether a folder looks like the root of a cache: it has a neuronxcc-* folder, or is empty.
Result<bool> LooksLikeCache(const std::string& path, const Looker& look = {});

Result<CacheEntry> ReadEntry(const std::string& path);  // The current state of one folder.

}  // namespace nxdkit::neff
