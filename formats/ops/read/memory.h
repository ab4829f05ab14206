// Tensors in the caller's memory instead of an artifact's files: a trainer's state dicts, one whole
// or one for each rank. Every command that reads accepts them (InputHints::memory).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::ops {

struct MemoryTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  Shape strides;                    // in elements; empty: row-major
  const std::byte* data = nullptr;  // of element [0, 0, ...]; any alignment, little-endian
  int tp = 0;                       // the rank that holds it, in a layout of shards
  int pp = 0;
  int ep = 0;
};

struct MemoryModel {
  std::string name;              // for messages
  const Kind* layout = nullptr;  // kHf: whole parameters; kNxd: the ranks' shards
  std::vector<MemoryTensor> tensors;
};

// An artifact of the layout's kind. Nothing is copied: the memory must stay in place, and readable
// from several threads, as long as the artifact or anything made from it lives; if it changes
// meanwhile, the values at the time of reading are used. config.json is the one in the hints, and
// the files next to it (a tokenizer) belong to the model. kUsage for another layout, for tensors
// without memory or beyond the address range, for two of one name on one rank, and if ranks are
// missing.
Result<artifact::Artifact> OpenMemory(const MemoryModel& model, const artifact::InputHints& hints);

}  // namespace nxdkit::ops
