// PRIVATE: numbers of the format and our own caps, shared by reader and writer.
#pragma once

#include <cstdint>
#include <string_view>

namespace nxdkit::safetensors {

inline constexpr uint64_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // exactly this many are allowed
inline constexpr uint64_t kHeaderAlign = 8;
inline constexpr std::string_view kMetadataKey = "__metadata__";

// Our caps; files that meet them are valid for the reference. They keep memory in proportion to
// the number of tensors: a header of 100 MB can spell 50 million dims.
//
// All dims of the file up to a tensor: no more than kSpareDims + kDimsPerTensor * (tensors so far).
inline constexpr uint64_t kSpareDims = 65'536;
inline constexpr uint64_t kDimsPerTensor = 16;
inline constexpr uint64_t kMaxMetadataEntries = 1'000'000;

}  // namespace nxdkit::safetensors
