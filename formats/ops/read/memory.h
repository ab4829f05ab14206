// Tensors in the caller's memory in the place of an artifact's files: a trainer's state dicts, one
// whole or one for each rank. Every command that reads takes them (InputHints::memory).
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
  int tp = 0;                       // the rank that holds it, of the layout of shards
  int pp = 0;
  int ep = 0;
};

struct MemoryModel {
  std::string name;              // for messages
  const Kind* layout = nullptr;  // kHf: parameters, whole; kNxd: what the ranks' shards hold
  std::vector<MemoryTensor> tensors;
};

// An artifact of the layout's kind. Nothing is copied: the memory stays where it is, and may be
// read from several threads, as long as the artifact or anything made of it lives; who changes it
// meanwhile gets whatever is there when it is read. config.json is what the hints name, and the
// files beside it (a tokenizer) go with the model. kUsage for another layout, for tensors without
// memory or beyond what an address can say, for two of one name on one rank, and for ranks that are
// not all there.
Result<artifact::Artifact> OpenMemory(const MemoryModel& model, const artifact::InputHints& hints);

}  // namespace nxdkit::ops
