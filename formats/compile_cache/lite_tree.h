// The compile cache of vLLM Neuron ("lite"): a folder for each graph, named by its key.
//
//   ROOT/<32 hex>/graph.hlo, graph_<32 hex>.neff, .artifact_metadata_v0.json,
//                 .compilation_complete (written last), ...
//   ROOT/nki/<32 hex>.json, binaries/: kernels (lite_kernel.h)
//
// Facts: FORMAT.md, read from source, not run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/leftovers.h"

namespace nxdkit::neff {

// Names of files in entries and next to them.
inline constexpr char kLiteGraphFile[] = "graph.hlo";
inline constexpr char kLiteMarkerFile[] = ".compilation_complete";
inline constexpr char kLiteMetadataFile[] = ".artifact_metadata_v0.json";
inline constexpr char kLiteAccessedFile[] = ".cache_accessed";
inline constexpr char kLiteCommandFile[] = "command.txt";
inline constexpr char kLiteKernelFolder[] = "nki";
inline constexpr char kLiteBinaryFolder[] = "binaries";  // in nki/

bool IsLiteKey(std::string_view name);           // 32 hexadecimal digits
std::string LiteNeffName(std::string_view key);  // "graph_<key>.neff"
bool IsLiteMetadataName(std::string_view name);  // any version
inline constexpr std::string_view kKernelSuffix = ".json";
inline constexpr std::string_view kLockSuffix = ".lock";
bool IsKernelName(std::string_view base_name);      // "<key>.json", in nki/
bool IsKernelLockName(std::string_view base_name);  // "<key>.lock", in nki/

// The leftover at a path below the root, if something there can leave one: in the root an entry or
// nki/, in nki/ a kernel or its lock; in nki/binaries/ and in entries only our own. Other names
// that look like leftovers are strangers.
std::optional<Leftover> LiteLeftover(const std::string& path);
// Abandoned leftovers in all of these places, as paths below the root.
Result<std::vector<std::string>> AbandonedInLiteTree(const CacheListing& listing,
                                                     const TreeMoment& moment);

// Whether there is a folder named by a key, or kernels, or the owner of an entry.
Result<bool> IsLiteTree(const std::string& root);

// Sorted by key. kDone: everything that the engine requires is there; it compares neither sizes nor
// contents. kLocked: not done, and a living process owns it.
Result<CacheListing> ListLiteTree(const std::string& root, const TreeMoment& moment);
// The current state of one entry, by its key.
Result<CacheEntry> ReadLiteEntry(const std::string& root, const std::string& key,
                                 const TreeMoment& moment);

}  // namespace nxdkit::neff
