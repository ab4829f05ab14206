// PRIVATE: the directory of a zip file: where each record's bytes are. Covers only the features
// that torch archives use.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/system/file.h"

namespace nxdkit::torch {

struct ZipRecord {
  std::string_view name;       // points into its ZipDirectory
  uint64_t header_offset = 0;  // of the local header, from the start of the file
  uint64_t data_offset = 0;    // of the first stored byte
  uint64_t stored_bytes = 0;   // in the file
  uint64_t bytes = 0;          // after inflating
  uint32_t crc = 0;            // of those; 0 also when the writer computed none
  uint16_t method = 0;         // zip::kStored or zip::kDeflated
};

// Immutable once read; move-only; thread-safe.
class ZipDirectory {
 public:
  // Reads the central directory and every local header, and checks that the records have different
  // names, are inside the file and do not overlap. Bytes after the end record are allowed, as torch
  // allows them, within the last 64 KiB + 22 of the file. kCorrupt, or kUnsupported for encrypted
  // records and other methods; errors carry the member name and the file offset.
  static Result<ZipDirectory> Read(FileView file);

  ZipDirectory(ZipDirectory&&) = default;
  ZipDirectory& operator=(ZipDirectory&&) = default;
  ZipDirectory(const ZipDirectory&) = delete;
  ZipDirectory& operator=(const ZipDirectory&) = delete;

  const std::vector<ZipRecord>& records() const { return records_; }  // in directory order
  const ZipRecord* Find(std::string_view name) const;

 private:
  ZipDirectory() = default;
  Status Parse(uint64_t entries, uint64_t directory_offset);
  Status ReadLocalHeaders(FileView file, uint64_t directory_offset);

  std::vector<char> bytes_;  // the central directory; a vector, since its bytes stay when moved
  std::vector<ZipRecord> records_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace nxdkit::torch
