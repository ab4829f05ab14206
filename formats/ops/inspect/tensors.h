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

// Which tensors to list, and in which order.
struct Selection {
  std::vector<std::string> filters;  // GlobMatch on the name; any of them; none: all
  std::optional<uint64_t> top;       // the largest ones only, largest first
  // As a reader looks for them, where `top` says nothing: in each file what belongs to no layer,
  // then layer by layer, each from the largest to the smallest.
  bool by_layer = false;
};

// File by file in the order of each file, where nothing else is asked for. Otherwise tensors that
// are alike keep that order.
std::vector<TensorPlace> SelectTensors(const Inspection& inspection, const Selection& selection);

// The file that holds the tensor's bytes: relative to `path` when it is inside.
std::string FileOf(const Inspection& inspection, TensorPlace place);

uint64_t TensorBytes(const StoredTensor& tensor);  // packed

}  // namespace nxdkit::ops
