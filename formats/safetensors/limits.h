// PRIVATE: numbers of the format and our own caps, shared by reader and writer.
#pragma once

#include <cstdint>
#include <string_view>

namespace nxdkit::safetensors {

inline constexpr uint64_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // exactly this many are allowed
inline constexpr uint64_t kHeaderAlign = 8;
inline constexpr std::string_view kMetadataKey = "__metadata__";

// Our caps; the reference accepts files beyond them. They keep memory in proportion to the number
// of tensors: a header of 100 MB can spell 50 million dims.
//
// Dims of the file up to and including a tensor: at most kSpareDims + kDimsPerTensor * (tensors so
// far).
inline constexpr uint64_t kSpareDims = 65'536;
inline constexpr uint64_t kDimsPerTensor = 16;
inline constexpr uint64_t kMaxMetadataEntries = 1'000'000;

}  // namespace nxdkit::safetensors
