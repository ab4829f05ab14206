// Files written by torch.save: the zip form of torch 1.6 to 2.x, and the legacy form. Format facts:
// FORMAT.md.
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
  std::string folder;   // zip form: the folder of all records, usually the file's stem
  std::string version;  // contents of the version record; "" for legacy
  PickleValue root;     // the saved object; tensors are TensorIndex into `tensors`
  // Every tensor object of the pickle, in the order built. Names are empty: a tensor's name is its
  // place in `root` (see FlattenStateDict).
  std::vector<StoredTensor> tensors;
  std::vector<std::string> warnings;  // one line each
};

struct ReadOptions {
  // Read every record and compare its CRC-32 (a mismatch: kCorrupt).
  bool check_crc = false;
  // Offsets in the file of records already verified, which are not read again.
  const std::set<uint64_t>* proved = nullptr;
  // Zip form: the globals that the pickle may name. Where distributed tensors and numpy arrays are
  // allowed, they are records in `root`; a distributed tensor's record has the rank's tensor and
  // its placement (pickle_globals.h). With kAny, objects of other classes are OpaqueObjects, and
  // only globals that would run code are refused.
  enum class Allowed : uint8_t { kPlain, kDistributed, kRunState, kAny } allowed = Allowed::kPlain;
  // Zip form: reads the records alone. The pickle, whatever it holds, is not read, and `root` is
  // None.
  bool only_records = false;
};

// True when the file starts like something ReadArchive reads (zip local header, or a pickle
// protocol byte). False on any error.
Result<bool> LooksLikeArchive(const std::string& path);

// Reads the structure, never the tensor data. Nothing in the file is executed: a pickle that asks
// for a global outside the allow-list is kUnsupported naming the global and its pickle offset.
Result<Archive> ReadArchive(const std::string& path, const ReadOptions& options = {});

// ReadArchive of a zip archive that is a part of a file, [offset, offset + bytes), which must be
// inside it.
Result<Archive> ReadArchiveAt(const std::shared_ptr<const File>& file, uint64_t offset,
                              uint64_t bytes, const ReadOptions& options = {});

// Whether the state dict refers to tensors in other files, as torch_xla's serialization.save writes
// them (xser).
bool RefersToFiles(const Archive& archive);

// A flat state dict as a TensorFile: `root` must be a dict of name -> tensor, or have such a dict
// one level below, either under a usual name of weights ("model", "state_dict", "model_state_dict",
// ...) or as the only one; its name is then put into `from`. Other values (epoch, ...) are left out
// and named in `skipped`. TensorReferences are an error here (kUnsupported).
Result<TensorFile> FlattenStateDict(const Archive& archive,
                                    std::vector<std::string>* skipped = nullptr,
                                    std::string* from = nullptr);

// The names under which trainers keep the weights, in the order they are tried.
std::span<const char* const> StateDictNames();

}  // namespace nxdkit::torch
