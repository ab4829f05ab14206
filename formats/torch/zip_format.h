// PRIVATE: the zip structures of a torch archive, for reader and writer. Field tables: FORMAT.md.
#pragma once

#include <cstdint>

namespace nxdkit::torch::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50;      // "PK\3\4"
inline constexpr uint32_t kDirectorySignature = 0x02014b50;  // "PK\1\2"
inline constexpr uint32_t kEndSignature = 0x06054b50;        // "PK\5\6"
inline constexpr uint32_t kEnd64Signature = 0x06064b50;      // "PK\6\6"
inline constexpr uint32_t kLocatorSignature = 0x07064b50;    // "PK\6\7"

// Bytes of the fixed part, signature included.
inline constexpr uint64_t kLocalBytes = 30;
inline constexpr uint64_t kDirectoryEntryBytes = 46;
inline constexpr uint64_t kEndBytes = 22;
inline constexpr uint64_t kEnd64Bytes = 56;
inline constexpr uint64_t kLocatorBytes = 20;

inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

// General purpose flags.
inline constexpr uint16_t kEncryptedFlags = 0x2041;  // encrypted, strongly encrypted, masked header
inline constexpr uint16_t kPatchFlag = 0x0020;       // compressed patched data
inline constexpr uint16_t kUtf8Flag = 0x0800;

// A field with this value has its number in the zip64 extra field.
inline constexpr uint32_t kIn64 = 0xffffffff;
inline constexpr uint16_t kCountIn64 = 0xffff;

inline constexpr uint16_t kZip64Extra = 0x0001;
inline constexpr uint16_t kPaddingExtra = 0x4246;  // "FB": torch's padding of the local header
inline constexpr uint64_t kDataAlignment = 64;     // of every record's data, in files torch writes

}  // namespace nxdkit::torch::zip
