// PRIVATE to formats: the entries of a folder, put together of what the files of its ranks have.
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
  // Both must outlive it, and `files` have its files before anything is added.
  ShardEntries(Folder& out, FolderFiles& files) : out_(out), files_(files) {}

  // Whose tensor it is.
  struct Source {
    uint32_t file = 0;  // in FolderFiles::files
    int64_t rank = 0;
  };
  // What a rank has of the tensor of this key and whole shape: `stored`, whose parts `shard` says.
  // May be called again for further tensors of the same rank where `again`. kCorrupt for parts
  // outside of `stored`, for another shape or dtype than a rank before it has said, and for a key
  // that a file has twice; kUnsupported for more parts than the files have room for.
  Status Add(const Source& source, const std::string& key, const Shape& shape,
             const StoredTensor& stored, const dtensor::LocalShard& shard, bool again = false);

  // Elements of a flattened tensor, and where they are in what a rank has.
  struct Range {
    int64_t at = 0;  // in `stored`
    int64_t first = 0;
    int64_t count = 0;
  };
  // The same of a part of the tensor of this key, flattened; `stored` is packed, of one dimension.
  Status AddRange(const Source& source, const std::string& key, const Shape& shape,
                  const StoredTensor& stored, const Range& range, bool again = false);

  // Every rank saves all objects. Where they differ it is kCorrupt where they must not, else the
  // lowest rank's is taken, and a warning says so.
  Status AddObject(const std::string& key, const torch::PickleValue& value, torch::PickleValue path,
                   bool must_agree = false);

  // The entry of a key; nullptr: there is none yet.
  const StoredEntry* Find(const std::string& key) const;

 private:
  Result<StoredEntry*> EntryOf(const Source& source, const std::string& key, const Shape& shape,
                               Dtype dtype, bool again);
  uint64_t MaxParts();

  Folder& out_;
  FolderFiles& files_;
  std::unordered_map<std::string, size_t> numbers_;       // of entries, by key
  std::vector<Source> owners_;                            // of entries: the file that had one last
  std::unordered_map<std::string, std::string> objects_;  // as pickles, by key
  std::set<std::string> differing_;
  uint64_t parts_ = 0;
  uint64_t max_parts_ = 0;
};

}  // namespace nxdkit::dcp
