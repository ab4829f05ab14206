// The tensors of an inspection: counted, selected and found in their files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

// Fills the counts and `dtypes`.
void CountTensors(Inspection& inspection);

// The tensors to list, and their order.
struct Selection {
  std::vector<std::string> filters;  // GlobMatch on the name; any may match; none: all
  std::optional<uint64_t> top;       // the largest ones only, largest first
  // In reading order, unless `top` is given: in each file the tensors outside the layers, then
  // layer by layer, each from the largest to the smallest.
  bool by_layer = false;
};

// In the order of the files and of each file, unless the selection asks for another. Equal tensors
// keep that order.
std::vector<TensorPlace> SelectTensors(const Inspection& inspection, const Selection& selection);

// The file that holds the tensor's bytes: relative to `path` if it is inside.
std::string FileOf(const Inspection& inspection, TensorPlace place);

// A file of tensors and its rank: "tp_rank_00.pt (tp 0, pp 1)"; its path as FileOf's.
std::string FileLabel(const Inspection& inspection, uint32_t file);

uint64_t TensorBytes(const StoredTensor& tensor);  // packed

}  // namespace nxdkit::ops
