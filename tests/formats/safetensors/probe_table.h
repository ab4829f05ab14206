// The probe table: small files, each with one peculiarity, and the reference's verdict on them
// (observed with its 0.8.0). Used by the tests here and, with the real package, by tests/interop.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "formats/safetensors/safetensors.h"

namespace nxdkit::safetensors::testing {

// Intended differences from the reference; see FORMAT.md.
enum class Ours {
  kSame,
  kStrict,       // refused as InvalidHeaderDeserialization: the three deviations
  kUnsupported,  // valid, but its dims do not fit int64_t
};

inline constexpr std::string_view kNone = "None";
inline constexpr std::string_view kFaults[] = {"HeaderTooSmall",
                                               "HeaderTooLarge",
                                               "InvalidHeaderLength",
                                               "InvalidHeader",
                                               "InvalidHeaderDeserialization",
                                               "InvalidOffset",
                                               "ValidationOverflow",
                                               "MisalignedSlice",
                                               "TensorInvalidInfo",
                                               "MetadataIncompleteBuffer"};

// The fault that the message of a kCorrupt begins with; kNone for anything else.
inline std::string_view FaultOf(const Result<TensorFile>& file) {
  if (file.ok() || file.error().code() != Errc::kCorrupt) return kNone;
  for (const std::string_view fault : kFaults)
    if (file.error().message().starts_with(std::string(fault) + ": ")) return fault;
  return kNone;
}

struct Probe {
  std::string id;
  std::string bytes;                   // the whole file
  std::string_view reference = kNone;  // the fault that the reference names, or kNone
  Ours ours = Ours::kSame;
};

inline void PrintTo(const Probe& probe, std::ostream* out) { *out << probe.id; }

// The 8 bytes of a header length.
inline std::string LengthBytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

// A file with this header, unchanged, and that many bytes of data: 1, 2, 3, ...
inline std::string FileOf(std::string_view header, size_t data_bytes = 0) {
  std::string bytes = LengthBytes(header.size()) + std::string(header);
  for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i + 1);
  return bytes;
}

// The value of one tensor in the header. `shape` and `offsets` without brackets.
inline std::string Entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" + std::string(shape) +
         "],\"data_offsets\":[" + std::string(offsets) + "]}";
}

// A header with one tensor named "t".
inline std::string One(std::string_view entry) { return "{\"t\":" + std::string(entry) + "}"; }
inline std::string One(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return One(Entry(dtype, shape, offsets));
}

}  // namespace nxdkit::safetensors::testing
