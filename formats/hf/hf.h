// Hugging Face model folders: single or sharded weights, and the small files next to them. Format
// facts: FORMAT.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::hf {

// Opens one tensor file (safetensors or torch); passed in by the caller, because one format's
// folder does not include another's.
using OpenTensorFile = std::function<Result<TensorFile>(const std::string& path)>;

// The weights of a folder, and their files.
struct Checkpoint {
  std::string folder;
  std::vector<TensorFile> files;  // sorted by file name
  bool sharded = false;           // in several files
  std::optional<Choice> choice;   // where the folder has other sets too
  std::string note;               // how they were found, if no loader looks for them; else ""
};

// The sets of weights in a folder: the file or the index of each, in the reference's lookup order
// (model.safetensors, model.safetensors.index.json, pytorch_model.bin,
// pytorch_model.bin.index.json), then consolidated.safetensors, then the first of any shards
// without an index. Nothing shows which of several sets is the model: they may come from two saves.
Result<std::vector<std::string>> WeightSets(const std::string& folder, const Looker& look = {});

// Whether the name is that of an index of shards.
bool IsIndexName(std::string_view path);

// Opens the folder's weights: `weights` names a file or an index in it, "" means the only set.
// kUsage for several sets, naming them, and for a name that is not in the folder.
//
// With an index, every file it names must exist, every tensor must be in its named file (a ghost
// entry is an error that names it), and a tensor that the index does not name is an error. File
// names are single path components (no "..", no "/", no "\").
Result<Checkpoint> Open(const std::string& folder, const OpenTensorFile& open,
                        const std::string& weights = "", const Looker& look = {});

// Whether Open would find weights in the folder (by file names only).
Result<bool> HasWeights(const std::string& folder, const Looker& look = {});

// The files next to the weights that accompany a model byte for byte, those present in `folder`,
// sorted: config.json, generation_config.json, tokenizer files, chat templates...
Result<std::vector<std::string>> SideFiles(const std::string& folder, const Looker& look = {});

// The text of a side file that a loader reads as settings (..._config.json,
// special_tokens_map.json); nullopt for any other. kCorrupt unless it begins with a JSON object:
// some are empty, or a list.
Result<std::optional<std::string>> ReadSettings(const std::string& path);

}  // namespace nxdkit::hf
