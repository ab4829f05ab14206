// The tensors of a set's main files, inside them or by reference in separate files.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "formats/torch/archive.h"
#include "lib/system/file_cache.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::nxd {

// The suffix that turns a main file's name into that of the folder of its tensors (torch_xla's
// xser).
inline constexpr char kTensorFolder[] = ".tensors";

// Files are opened only while they are read: an xser set has more tensor files than a process may
// have open, and a set of many ranks more main files. For one thread; the storages it returns are
// thread-safe and outlive it.
class TensorFiles {
 public:
  // `main_files`: their number; few are simply kept open.
  explicit TensorFiles(size_t main_files);

  // Tensor `index` of a main file. Storages that tensors share remain shared within one archive.
  StoredTensor Inside(const torch::Archive& archive, size_t index);
  // The only tensor of the file at `path`, as given by PathOf; adds the file's size to
  // `file_bytes`.
  Result<StoredTensor> Open(const std::string& path, uint64_t& file_bytes);

  // The path of the tensor with reference `tid` from the main file at `main`.
  static std::string PathOf(const std::string& main, int64_t tid);
  // kCorrupt: the tensor's file at `path`, or the whole folder that should contain it, is missing.
  static Error Missing(const std::string& main, const std::string& path);

 private:
  bool keeps_open_;
  std::shared_ptr<FileCache> cache_;  // shared by all tensors of the set
  std::string archive_path_;          // the archive whose storages are in reopened_
  std::map<const Storage*, std::shared_ptr<const Storage>> reopened_;
};

}  // namespace nxdkit::nxd
