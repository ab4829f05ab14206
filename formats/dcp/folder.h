// An opened PyTorch distributed checkpoint: a folder with `.metadata` and the files that hold the
// items. Format facts: FORMAT.md.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/dcp/metadata.h"
#include "lib/system/looker.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dcp {

// A chunk and where it is stored.
struct StoredChunk {
  Box box;
  uint32_t file = 0;    // index into Folder::files
  StoredTensor stored;  // its shape is the box's extent
};

struct StoredEntry {
  std::string key;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // Together they cover the tensor; disjoint, except for copies that several ranks saved.
  std::vector<StoredChunk> chunks;
};

// An archive inside a file: an item.
struct Archive {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The program that wrote the folder. Once opened, all forms read the same.
enum class FolderForm : uint8_t {
  kCheckpoint,    // torch.distributed.checkpoint: .metadata
  kRankLocal,     // without collectives: a __R.metadata for each rank
  kRankFiles,     // torch_checkpointing: <item>_<rank>.pt
  kSafetensors,   // HuggingFaceStorageWriter: safetensors shards that record their offsets
  kTransformers,  // safetensors weights, and a folder with the optimizer's .metadata
};

struct Folder {
  std::string path;
  FolderForm form = FolderForm::kCheckpoint;
  Metadata metadata;  // its tensors are those of the .metadata file; empty without one
  std::vector<StoredEntry> tensors;
  std::vector<TensorFile> files;  // sorted by name; each chunk is a tensor, named by its key
  std::vector<Archive> archives;  // every item stored uncompressed, once
  std::vector<std::string> warnings;
  // Keys of tensors that every rank has whole: where others are cut, these are a model's buffers.
  std::set<std::string, std::less<>> whole_keys;
  // For keys that were shortened after they were read: the stored key, by the shorter one.
  std::map<std::string, std::string, std::less<>> stored_keys;
};

// The name of the master weight of a parameter in a state by names, after "optimizer.state.NAME.".
// torch itself has none; readers of other trainers' checkpoints add it.
inline constexpr char kMasterWeights[] = "sharded_master_weights";

// Elements [first, end) of a flattened tensor of this shape, as chunks of it, which are consecutive
// at the beginning of `flat`.
std::vector<StoredChunk> ChunksOfRange(const Shape& shape, int64_t first, int64_t end,
                                       StoredTensor flat, uint32_t file);

// The key as it is stored; metadata.paths uses stored keys.
const std::string& StoredKey(const Folder& folder, const std::string& key);

// Adds the checkpoint in a folder below that of `to`.
void AppendFolder(const std::string& below, Folder from, Folder& to);

// Adds a warning; those after the twentieth are dropped.
void AddWarning(Folder& folder, std::string warning);
// Warns that the ranks saved different objects under the key.
void WarnOfDifference(Folder& folder, const std::string& key);

// kCorrupt where a number that several ranks saved differs between their files.
Status CheckScalars(const Folder& folder);

// Whether the folder is meant as a distributed checkpoint: it has a metadata file, files named
// *.distcp, or safetensors shards that record their offsets.
Result<bool> LooksLikeFolder(const std::string& path, const Looker& look = {});

// Reads the metadata and the structure of every chunk's archive, never tensor data. kCorrupt naming
// file, key and offset for items that are outside their file or overlap, and for archives that
// contradict the metadata. A folder without metadata is kCorrupt: its save was not completed.
// Compressed items are decompressed here, into a temporary file.
Result<Folder> Open(const std::string& path, const Looker& look = {});

// The bytes of an object's archive.
Result<std::string> ReadObject(const Folder& folder, const ObjectEntry& entry);
// The object's value, if it is plain: numbers, strings, containers. kUnsupported otherwise: nothing
// is executed.
Result<torch::PickleValue> ReadObjectValue(const Folder& folder, const ObjectEntry& entry);

}  // namespace nxdkit::dcp
