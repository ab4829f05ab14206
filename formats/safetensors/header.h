// PRIVATE: the JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/system/file.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::safetensors {

// The fields of an entry that a StoredTensor does not hold. Header offsets fit: a header has at
// most 100,000,000 bytes.
struct EntryPlace {
  uint64_t end = 0;     // second of data_offsets
  uint32_t offset = 0;  // of the entry's '{', from the start of the file
};

// The header as it is in the file, its numbers not yet checked. `tensors[i]` and `places[i]` are
// one entry. A tensor's offset is the first of data_offsets; its dims are the unsigned 64-bit
// numbers of the header cast to int64_t, which the validation casts back; strides and storage are
// empty.
struct Header {
  std::vector<StoredTensor> tensors;
  std::vector<EntryPlace> places;
  std::vector<std::pair<std::string, std::string>> metadata;  // sorted by key
};

// Parses the `bytes` header bytes at offset 8, streaming. kCorrupt: InvalidHeader,
// InvalidHeaderDeserialization. kLimit where a cap of limits.h is reached.
Result<Header> ParseHeader(const File& file, uint64_t bytes);

// Sorts the entries by (begin, end) and checks them as the reference does, in its order; then sets
// the strides. kCorrupt: InvalidOffset to MetadataIncompleteBuffer. kUnsupported for shapes that
// int64_t dims cannot hold (only possible together with a dim of 0). `data_begin` is where the data
// starts.
Status ValidateLayout(Header& header, uint64_t data_begin, uint64_t file_bytes);

}  // namespace nxdkit::safetensors
