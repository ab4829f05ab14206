// Private: the index of a sharded checkpoint, model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::hf {

inline constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
inline constexpr size_t kMaxShards = 10'000;

// The weight map. Names are unique; every file name has passed CheckShardFileName.
struct Index {
  struct Entry {
    std::string tensor;
    uint32_t file = 0;  // of `files`
  };
  std::string path;
  std::vector<std::string> files;  // sorted
  std::vector<Entry> entries;      // sorted by tensor name
};

// Reads the index; only its names take memory. `extension` is that of the shards: ".safetensors" or
// ".bin". kCorrupt with the offset on JSON faults, on a weight_map that is not an object of
// strings, on a tensor named twice and on a file name that is refused. kLimit over kMaxShards
// files.
Result<Index> ReadIndex(const std::string& path, std::string_view extension);

// The entry of a tensor; null when the index does not name it.
const Index::Entry* Find(const Index& index, std::string_view tensor);

// Why the file name of a shard is refused, "" when it is valid: it must be a single path component
// with the extension, and remain one when percent-encoding is undone, however often it was applied.
std::string ShardFileNameFault(std::string_view name, std::string_view extension);

}  // namespace nxdkit::hf
