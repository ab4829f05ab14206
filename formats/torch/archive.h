// Files that torch.save wrote: the zip form of torch 1.6 to 2.x, and the legacy form.
// Format facts: FORMAT.md beside this file.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "formats/torch/pickle_value.h"
#include "lib/system/file.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::torch {

struct Archive {
  std::string path;
  std::string format;  // "torch zip" or "torch legacy"
  uint64_t file_bytes = 0;
  std::string folder;   // of a zip: that which all records are in, as a rule the file's stem
  std::string version;  // contents of the version record; "" for legacy
  PickleValue root;     // the saved object; tensors are TensorIndex into `tensors`
  // Every tensor object of the pickle, in the order they were built. Names are empty: a tensor's
  // name is its place in `root` (see FlattenStateDict).
  std::vector<StoredTensor> tensors;
  std::vector<std::string> warnings;  // one line each
};

struct ReadOptions {
  // Read every record and compare its CRC-32 (a mismatch: kCorrupt).
  bool check_crc = false;
  // The places in the file of records that were proved before, and are not read again.
  const std::set<uint64_t>* proved = nullptr;
  // Of the zip form: the globals that the pickle may name. Distributed tensors are records in
  // `root`, with the tensor of the rank and how it is placed (pickle_globals.h), where they may be
  // there; and so are arrays of numpy. With kAny objects of other classes are OpaqueObjects, and
  // only what would run code is refused.
  enum class Allowed : uint8_t { kPlain, kDistributed, kRunState, kAny } allowed = Allowed::kPlain;
  // Of the zip form: the records alone. The pickle, which may be of anything, is not read, and
  // `root` is None.
  bool only_records = false;
};

// True when the file starts like something ReadArchive reads (zip local header, or a pickle
// protocol byte). False on any error.
Result<bool> LooksLikeArchive(const std::string& path);

// Reads the structure, never the tensor data. Nothing in the file is executed: a pickle that asks
// for a global outside the allow-list is kUnsupported naming the global and its pickle offset.
Result<Archive> ReadArchive(const std::string& path, const ReadOptions& options = {});

// The same of an archive of the zip form that lies in a part of a file, [offset, offset + bytes),
// which must be inside it.
Result<Archive> ReadArchiveAt(const std::shared_ptr<const File>& file, uint64_t offset,
                              uint64_t bytes, const ReadOptions& options = {});

// Whether the state dict refers to tensors in files beside it, as torch_xla's serialization.save
// writes them (xser).
bool RefersToFiles(const Archive& archive);

// A flat state dict as a TensorFile: `root` must be a dict of name -> tensor, or have such a dict
// one level below, under a name that weights have ("model", "state_dict", "model_state_dict", ...)
// or as the only one, whose name is put into `from` then. Other values beside the tensors (epoch,
// ...) are left out and named in `skipped`. TensorReferences are an error here (kUnsupported).
Result<TensorFile> FlattenStateDict(const Archive& archive,
                                    std::vector<std::string>* skipped = nullptr,
                                    std::string* from = nullptr);

// The names under which trainers keep the weights, in the order in which they are looked for.
std::span<const char* const> StateDictNames();

}  // namespace nxdkit::torch
