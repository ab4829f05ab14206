#include "formats/torch/zip_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/torch/byte_reader.h"
#include "formats/torch/zip_format.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kMaxCommentBytes = 65535;
constexpr uint64_t kMaxDirectoryBytes = 1 << 30;  // 5 million records; bounds our memory

Error Corrupt(uint64_t offset, std::string message) {
  return Error(Errc::kCorrupt, std::move(message)).at(offset);
}

Result<std::string> ReadBytes(const File& file, uint64_t offset, uint64_t bytes) {
  std::string buffer(static_cast<size_t>(bytes), '\0');
  NXDKIT_TRY(file.ReadAt(offset, std::as_writable_bytes(std::span(buffer))));
  return buffer;
}

// Position of the last end record in `tail` whose comment fits.
std::optional<size_t> FindEndRecord(std::string_view tail) {
  constexpr std::string_view kSignature("PK\5\6", 4);
  for (size_t at = tail.rfind(kSignature); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : tail.rfind(kSignature, at - 1)) {
    if (tail.size() - at < zip::kEndBytes) continue;
    const uint64_t comment_bytes = LittleEndian<uint16_t>(tail.substr(at + 20));
    if (comment_bytes <= tail.size() - at - zip::kEndBytes) return at;
  }
  return std::nullopt;
}

Error MultiDisk(uint64_t offset, uint64_t disk) {
  return Error(Errc::kUnsupported,
               fmt::format("the zip archive spans several disks (disk number {})", disk))
      .at(offset);
}

Result<ZipEnd> ParseEnd(std::string_view record, uint64_t offset) {
  const uint64_t disk = LittleEndian<uint16_t>(record.substr(4));
  const uint64_t entries_here = LittleEndian<uint16_t>(record.substr(8));
  ZipEnd end;
  end.entries = LittleEndian<uint16_t>(record.substr(10));
  end.directory_bytes = LittleEndian<uint32_t>(record.substr(12));
  end.directory_offset = LittleEndian<uint32_t>(record.substr(16));
  if (disk != 0) return MultiDisk(offset, disk);
  if (entries_here != end.entries)
    return Corrupt(offset,
                   fmt::format("the end record counts {} entries on this disk and {} in all",
                               entries_here, end.entries));
  return end;
}

Result<ZipEnd> ParseEnd64(std::string_view record, uint64_t offset) {
  if (LittleEndian<uint32_t>(record) != zip::kEnd64Signature)
    return Corrupt(offset,
                   fmt::format("the zip64 end record has signature {:#010x}, expected {:#010x}",
                               LittleEndian<uint32_t>(record), zip::kEnd64Signature));
  const uint64_t disk = LittleEndian<uint32_t>(record.substr(16));
  const uint64_t entries_here = LittleEndian<uint64_t>(record.substr(24));
  ZipEnd end;
  end.entries = LittleEndian<uint64_t>(record.substr(32));
  end.directory_bytes = LittleEndian<uint64_t>(record.substr(40));
  end.directory_offset = LittleEndian<uint64_t>(record.substr(48));
  if (disk != 0) return MultiDisk(offset, disk);
  if (entries_here != end.entries)
    return Corrupt(offset, fmt::format("the zip64 end record counts {} entries on this disk and {} "
                                       "in all",
                                       entries_here, end.entries));
  return end;
}

// Offset of the zip64 end record, when a locator stands right before the end record at `end`.
Result<std::optional<uint64_t>> FindEnd64(const File& file, uint64_t end) {
  if (end < zip::kLocatorBytes) return std::optional<uint64_t>();
  const uint64_t at = end - zip::kLocatorBytes;
  NXDKIT_ASSIGN(const std::string locator, ReadBytes(file, at, zip::kLocatorBytes));
  if (LittleEndian<uint32_t>(locator) != zip::kLocatorSignature) return std::optional<uint64_t>();
  const uint64_t offset = LittleEndian<uint64_t>(std::string_view(locator).substr(8));
  if (at < zip::kEnd64Bytes || offset > at - zip::kEnd64Bytes)
    return Corrupt(at, fmt::format("the zip64 locator says the end record is at {}, but it ends "
                                   "before the locator at {}",
                                   offset, at));
  return std::optional<uint64_t>(offset);
}

Status CheckPlace(const ZipEnd& end, uint64_t limit) {
  if (end.directory_offset > limit || end.directory_bytes > limit - end.directory_offset)
    return Corrupt(limit, fmt::format("the central directory ({} bytes at offset {}) is not before "
                                      "its end record at {}",
                                      end.directory_bytes, end.directory_offset, limit));
  if (end.entries > end.directory_bytes / zip::kDirectoryEntryBytes)
    return Corrupt(limit, fmt::format("{} entries do not fit into a central directory of {} bytes",
                                      end.entries, end.directory_bytes));
  if (end.directory_bytes > kMaxDirectoryBytes)
    return Error(Errc::kUnsupported,
                 fmt::format("the central directory has {} bytes, the limit is {}",
                             end.directory_bytes, kMaxDirectoryBytes))
        .at(end.directory_offset);
  return OkStatus();
}

}  // namespace

Result<ZipEnd> ReadZipEnd(const File& file) {
  const uint64_t tail_bytes = std::min(file.bytes(), zip::kEndBytes + kMaxCommentBytes);
  const uint64_t tail_offset = file.bytes() - tail_bytes;
  NXDKIT_ASSIGN(const std::string tail, ReadBytes(file, tail_offset, tail_bytes));
  const std::optional<size_t> found = FindEndRecord(tail);
  if (!found)
    return Corrupt(file.bytes(), fmt::format("no end of a zip archive in the last {} bytes of {}",
                                             tail_bytes, file.bytes()))
        .hint("the file is cut off, or is still being written");
  const uint64_t end_offset = tail_offset + *found;
  NXDKIT_ASSIGN(const std::optional<uint64_t> end64_offset, FindEnd64(file, end_offset));
  if (!end64_offset) {
    NXDKIT_ASSIGN(const ZipEnd end, ParseEnd(std::string_view(tail).substr(*found), end_offset));
    NXDKIT_TRY(CheckPlace(end, end_offset));
    return end;
  }
  NXDKIT_ASSIGN(const std::string record, ReadBytes(file, *end64_offset, zip::kEnd64Bytes));
  NXDKIT_ASSIGN(const ZipEnd end, ParseEnd64(record, *end64_offset));
  NXDKIT_TRY(CheckPlace(end, *end64_offset));
  return end;
}

}  // namespace nxdkit::torch
