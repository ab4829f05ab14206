// Writes a whole file with the encoder, as the executor's write sink would.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "formats/safetensors/encoder.h"

namespace nxdkit::safetensors::testing {

// `data[i]` are the bytes of tensors[i]. Returns "" when the encoder refuses.
inline std::string WholeFile(const std::vector<OutputTensor>& tensors,
                             const std::vector<std::string>& data,
                             const std::map<std::string, std::string>& metadata = {}) {
  const auto encoder = Encode(tensors, metadata);
  if (!encoder.ok()) {
    ADD_FAILURE() << encoder.error().ToString();
    return "";
  }
  std::string file((*encoder)->file_bytes(), '?');
  for (size_t i = 0; i < tensors.size(); ++i)
    file.replace((*encoder)->data_offset(i), data[i].size(), data[i]);
  for (const Fragment& fragment : (*encoder)->Frame({}))
    file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  return file;
}

// The bytes of a tensor, which must be packed.
inline std::string DataOf(const StoredTensor& tensor) {
  const Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);
  std::string data(bytes.ok() ? *bytes : 0, '?');
  const Status read =
      tensor.storage->ReadAt(tensor.offset, std::as_writable_bytes(std::span(data)));
  if (!bytes.ok() || !IsPacked(tensor) || !read.ok()) ADD_FAILURE() << tensor.name;
  return data;
}

}  // namespace nxdkit::safetensors::testing
