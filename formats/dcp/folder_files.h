// PRIVATE: the data files of a folder: each opened once, inside of the folder, and few kept open.
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

// A plain name below the folder: relative, without "." and "..". kCorrupt otherwise; `what` is what
// names the file, for the message.
Status CheckFileName(const std::string& name, std::string_view what);

// kCorrupt for a link that leads out of the folder.
Status CheckInside(const std::string& folder, const std::string& name);

// A file of the folder that is read whole. kCorrupt for a link that leads out of the folder.
Result<std::string> ReadFolderFile(const std::string& folder, const std::string& name,
                                   uint64_t max_bytes);

class FolderFiles {
 public:
  // `said_by` is the file that names them. kCorrupt for a file that is missing, that lies outside
  // of the folder, or that is another one of them under a second name.
  static Result<FolderFiles> Open(const std::string& folder, const std::set<std::string>& names,
                                  const std::string& said_by);

  uint32_t Number(const std::string& name) const { return numbers_.at(name); }
  Result<std::shared_ptr<const File>> Get(uint32_t number) const;
  // The tensor of one of the files, which is opened again when it is read if there are too many.
  StoredTensor Kept(StoredTensor tensor);

  // Counts a stored tensor. kUnsupported where the tensors have far more bytes than the files:
  // views and items that share their bytes make much of little, and who lays them out takes memory
  // for all of it.
  Status Count(const StoredTensor& tensor);
  // The files have more bytes than one sees: these were compressed.
  void CountUnpacked(uint64_t bytes) { all_bytes_ += bytes; }

  std::vector<TensorFile> files;  // sorted by name; tensors are for the caller to add

 private:
  uint64_t all_bytes_ = 0;  // of the files
  uint64_t tensor_bytes_ = 0;
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::shared_ptr<const File>> open_;  // null: too many to be kept open
  std::shared_ptr<FileCache> cache_;
  // With it: the storages, by file and place, so that tensors of one record stay in one, which
  // proves its checksum.
  std::map<std::pair<std::string, uint64_t>, std::shared_ptr<const Storage>> reopened_;
};

}  // namespace nxdkit::dcp
