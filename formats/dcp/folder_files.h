// PRIVATE: the data files of a folder: each is opened once, must be inside the folder, and few stay
// open.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/system/file_cache.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dcp {

// Accepts a plain name below the folder: relative, without "." and "..". kCorrupt otherwise; `what`
// describes where the name comes from, for the message.
Status CheckFileName(const std::string& name, std::string_view what);

// kCorrupt for a link that leads out of the folder.
Status CheckInside(const std::string& folder, const std::string& name);

// Reads a whole file of the folder. kCorrupt for a link that leads out of the folder.
Result<std::string> ReadFolderFile(const std::string& folder, const std::string& name,
                                   uint64_t max_bytes);

class FolderFiles {
 public:
  // `said_by` is the file that names them. kCorrupt for a file that is missing, that is outside the
  // folder, or that is listed a second time under another name.
  static Result<FolderFiles> Open(const std::string& folder, const std::set<std::string>& names,
                                  const std::string& said_by);

  uint32_t Number(const std::string& name) const { return numbers_.at(name); }
  Result<std::shared_ptr<const File>> Get(uint32_t number) const;
  // A tensor of one of the files; when there are too many files, its file is reopened for each
  // read.
  StoredTensor Kept(StoredTensor tensor);

  // Counts a stored tensor. kUnsupported where the tensors have far more bytes than the files:
  // views and items that share their bytes make a small file look large, and laying them out would
  // take memory for all of it.
  Status Count(const StoredTensor& tensor);
  // Adds the decompressed size of items to the size of the files.
  void CountUnpacked(uint64_t bytes) { all_bytes_ += bytes; }

  std::vector<TensorFile> files;  // sorted by name; tensors are for the caller to add

 private:
  uint64_t all_bytes_ = 0;  // of the files
  uint64_t tensor_bytes_ = 0;
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::shared_ptr<const File>> open_;  // null when too many to keep open
  std::shared_ptr<FileCache> cache_;
  // Used with the cache: the storages, by file and offset, so that tensors of one record share one,
  // which verifies its checksum.
  std::map<std::pair<std::string, uint64_t>, std::shared_ptr<const Storage>> reopened_;
};

}  // namespace nxdkit::dcp
