// The invariants of everything that safetensors::Open accepts; for the damage sweeps and the
// fuzzer.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors/safetensors.h"

namespace nxdkit::safetensors::testing {

// "" or the broken invariant.
inline std::string BrokenInvariant(const TensorFile& file) {
  uint64_t end = 0;
  std::set<std::string> names;
  for (const StoredTensor& tensor : file.tensors) {
    const auto broken = [&](const char* what) { return "tensor '" + tensor.name + "': " + what; };
    const Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return broken("its bytes cannot be counted");
    if (tensor.storage == nullptr) return broken("it has no storage");
    if (tensor.offset != end) return broken("it does not begin where the one before ended");
    end += *bytes;
    if (end > tensor.storage->bytes()) return broken("it leaves the storage");
    if (tensor.storage->file_offset() + tensor.storage->bytes() != file.file_bytes)
      return broken("its storage does not end with the file");
    if (!IsPacked(tensor) || tensor.big_endian) return broken("it is not packed little-endian");
    if (tensor.strides.size() != tensor.shape.size()) return broken("it lacks strides");
    if (static_cast<int>(tensor.dtype) >= kSafetensorsDtypeCount) return broken("foreign dtype");
    if (tensor.name == "__metadata__") return broken("reserved name");
    if (!names.insert(tensor.name).second) return broken("its name is there twice");
  }
  if (!file.tensors.empty() && end != file.tensors.front().storage->bytes())
    return "the tensors do not fill the storage";
  for (size_t i = 1; i < file.metadata.size(); ++i)
    if (file.metadata[i - 1].first >= file.metadata[i].first) return "metadata is not sorted";
  return "";
}

}  // namespace nxdkit::safetensors::testing
