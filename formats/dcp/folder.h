// A PyTorch distributed checkpoint, opened: a folder with `.metadata` and the files that hold the
// items. Format facts: FORMAT.md beside this file.
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

// A chunk, where it is stored.
struct StoredChunk {
  Box box;
  uint32_t file = 0;    // index into Folder::files
  StoredTensor stored;  // its shape is the box's extent
};

struct StoredEntry {
  std::string key;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // Together they are the tensor; disjoint, but for copies that several ranks saved.
  std::vector<StoredChunk> chunks;
};

// An archive inside a file: an item.
struct Archive {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What wrote the folder. All that comes after reads of each the same.
enum class FolderForm : uint8_t {
  kCheckpoint,    // torch.distributed.checkpoint: .metadata
  kRankLocal,     // the same without collectives: a __R.metadata of every rank
  kRankFiles,     // torch_checkpointing: <item>_<rank>.pt
  kSafetensors,   // HuggingFaceStorageWriter: shards of safetensors that say where they belong
  kTransformers,  // weights of safetensors, and a folder with the optimizer's .metadata
};

struct Folder {
  std::string path;
  FolderForm form = FolderForm::kCheckpoint;
  Metadata metadata;  // its tensors are those of a .metadata; without one there are none
  std::vector<StoredEntry> tensors;
  std::vector<TensorFile> files;  // sorted by name; each chunk is a tensor, named by its key
  std::vector<Archive> archives;  // every item that is stored as it is, once
  std::vector<std::string> warnings;
  // Keys of tensors that every rank has whole: where others are cut, these are a model's buffers.
  std::set<std::string, std::less<>> whole_keys;
  // Where keys were shortened after they were read: the one that is stored, by the shorter one.
  std::map<std::string, std::string, std::less<>> stored_keys;
};

// What a state by names calls the master weight beside a weight: "optimizer.state.NAME." before it.
// torch itself has none; it is what readers of other trainers' checkpoints make of theirs.
inline constexpr char kMasterWeights[] = "sharded_master_weights";

// Elements [first, end) of a tensor of this shape, flattened, as chunks of it; they lie in a row at
// the beginning of `flat`.
std::vector<StoredChunk> ChunksOfRange(const Shape& shape, int64_t first, int64_t end,
                                       StoredTensor flat, uint32_t file);

// The key as it is stored; metadata.paths goes by it.
const std::string& StoredKey(const Folder& folder, const std::string& key);

// Adds the checkpoint in a folder below that of `to`.
void AppendFolder(const std::string& below, Folder from, Folder& to);

// Warnings beyond twenty are left out.
void AddWarning(Folder& folder, std::string warning);
// Every rank has saved an object under the key, and not all of them the same.
void WarnOfDifference(Folder& folder, const std::string& key);

// kCorrupt where a number that several ranks saved is not the same in all of their files.
Status CheckScalars(const Folder& folder);

// Whether the folder is meant as one: it has a file of metadata, files named *.distcp, or shards
// of safetensors that say where they belong.
Result<bool> LooksLikeFolder(const std::string& path, const Looker& look = {});

// Reads the metadata and the structure of every chunk's archive, never tensor data. kCorrupt naming
// file, key and offset for items that are outside of their file or overlap, and for archives that
// hold something else than the metadata says. A folder without metadata is kCorrupt: its save did
// not come to its end. Items that were compressed are decompressed here, into a temporary file.
Result<Folder> Open(const std::string& path, const Looker& look = {});

// The bytes of an object's archive.
Result<std::string> ReadObject(const Folder& folder, const ObjectEntry& entry);
// What it holds, when that is plain: numbers, strings, containers. kUnsupported otherwise: nothing
// is executed.
Result<torch::PickleValue> ReadObjectValue(const Folder& folder, const ObjectEntry& entry);

}  // namespace nxdkit::dcp
