// PRIVATE to formats: the entries of a folder, put together from the files of its ranks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/dcp/folder_files.h"
#include "formats/dtensor/sharding.h"

namespace nxdkit::dcp {

class ShardEntries {
 public:
  // Both must outlive it, and `files` must be complete before anything is added.
  ShardEntries(Folder& out, FolderFiles& files) : out_(out), files_(files) {}

  // The file and rank that a tensor comes from.
  struct Source {
    uint32_t file = 0;  // in FolderFiles::files
    int64_t rank = 0;
  };
  // Adds a rank's part of the tensor with this key and whole shape: `stored`, whose parts are in
  // `shard`. With `again` it may be another tensor of the same rank under the same key. kCorrupt
  // for parts outside `stored`, for a shape or dtype that differs from an earlier rank's, and for a
  // key that a file has twice; kUnsupported for more parts than the files have room for.
  Status Add(const Source& source, const std::string& key, const Shape& shape,
             const StoredTensor& stored, const dtensor::LocalShard& shard, bool again = false);

  // Elements of a flattened tensor, and their place in the rank's tensor.
  struct Range {
    int64_t at = 0;  // in `stored`
    int64_t first = 0;
    int64_t count = 0;
  };
  // Adds a flattened part of the tensor with this key; `stored` is packed and has one dimension.
  Status AddRange(const Source& source, const std::string& key, const Shape& shape,
                  const StoredTensor& stored, const Range& range, bool again = false);

  // Every rank saves all objects. A difference is kCorrupt with `must_agree`; otherwise the lowest
  // rank's object is taken, with a warning.
  Status AddObject(const std::string& key, const torch::PickleValue& value, torch::PickleValue path,
                   bool must_agree = false);

  // The entry of a key; nullptr if there is none yet.
  const StoredEntry* Find(const std::string& key) const;

 private:
  Result<StoredEntry*> EntryOf(const Source& source, const std::string& key, const Shape& shape,
                               Dtype dtype, bool again);
  uint64_t MaxParts();

  Folder& out_;
  FolderFiles& files_;
  std::unordered_map<std::string, size_t> numbers_;       // of entries, by key
  std::vector<Source> owners_;                            // by entry: the last file that had it
  std::unordered_map<std::string, std::string> objects_;  // as pickles, by key
  std::set<std::string> differing_;
  uint64_t parts_ = 0;
  uint64_t max_parts_ = 0;
};

}  // namespace nxdkit::dcp
