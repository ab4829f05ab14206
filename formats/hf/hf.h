// Hugging Face model folders: single or sharded weights, and the small files next to them.
// Format facts: FORMAT.md beside this file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::hf {

// Opens one file of tensors (safetensors or torch); given by the caller, because one format's
// folder does not include another's.
using OpenTensorFile = std::function<Result<TensorFile>(const std::string& path)>;

// The weights of a folder, and how they are spread.
struct Checkpoint {
  std::string folder;
  std::vector<TensorFile> files;  // sorted by file name
  bool sharded = false;           // read through an index
};

// The folder's weights, in the reference's lookup order: model.safetensors,
// model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json.
// With an index: every file it names must be there, every tensor it names must be in the file it
// names (a ghost entry is an error that names it), and a tensor of a file that the index does not
// name is an error. File names are single path components (no "..", no "/", no "\").
Result<Checkpoint> Open(const std::string& folder, const OpenTensorFile& open);

// Whether Open would find weights there (by file names only).
Result<bool> HasWeights(const std::string& folder);

// The files next to the weights that travel with a model byte for byte, those present in `folder`,
// sorted: config.json, generation_config.json, tokenizer files, chat templates...
Result<std::vector<std::string>> SideFiles(const std::string& folder);

}  // namespace nxdkit::hf
