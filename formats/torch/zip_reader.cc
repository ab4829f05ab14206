#include "formats/torch/zip_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "formats/torch/byte_reader.h"
#include "formats/torch/zip_format.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kMaxCommentBytes = 65535;
constexpr uint64_t kMaxDirectoryBytes = 1 << 30;  // 5 million records; bounds our memory
// Deflate cannot expand by more than this (258 bytes from 2 bits), so a larger claim is a lie.
constexpr uint64_t kMaxInflation = 1032;

Error InHeader(const ZipRecord& record, Error error) {
  return std::move(error).member(record.name).at(record.header_offset);
}

// The end record's fields: where the central directory is.
struct ZipEnd {
  uint64_t entries = 0;
  uint64_t directory_bytes = 0;
  uint64_t directory_offset = 0;  // from the start of the file
};

// Position of the last end record in `tail` whose comment fits.
std::optional<size_t> FindEndRecord(std::string_view tail) {
  constexpr std::string_view kSignature("PK\5\6", 4);
  for (size_t at = tail.rfind(kSignature); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : tail.rfind(kSignature, at - 1)) {
    if (tail.size() - at < zip::kEndBytes) continue;
    const uint64_t comment_bytes = LoadLittle<uint16_t>(tail, at + 20);
    if (comment_bytes <= tail.size() - at - zip::kEndBytes) return at;
  }
  return std::nullopt;
}

// Offset of the zip64 end record, when a locator is right before the end record at `end`.
Result<std::optional<uint64_t>> FindEnd64(FileView file, uint64_t end) {
  if (end < zip::kLocatorBytes) return std::optional<uint64_t>();
  const uint64_t at = end - zip::kLocatorBytes;
  NXDKIT_ASSIGN(const std::string locator, ReadBytes(file, at, zip::kLocatorBytes));
  if (LoadLittle<uint32_t>(locator) != zip::kLocatorSignature) return std::optional<uint64_t>();
  const uint64_t offset = LoadLittle<uint64_t>(locator, 8);
  if (at < zip::kEnd64Bytes || offset > at - zip::kEnd64Bytes)
    return Corrupt(
               "the zip64 locator says the end record is at {}, but it ends "
               "before the locator at {}",
               offset, at)
        .at(at);
  return std::optional<uint64_t>(offset);
}

// Both end records have these fields in this order, with numbers of different widths: this disk,
// the directory's disk, entries on this disk, entries, bytes and offset of the directory.
template <typename Disk, typename Count, typename Size>
Result<ZipEnd> ParseEnd(std::string_view fields, uint64_t record_offset, std::string_view name) {
  const uint64_t disk = LoadLittle<Disk>(fields);
  const size_t counts = 2 * sizeof(Disk);
  const size_t sizes = counts + 2 * sizeof(Count);
  const uint64_t entries_here = LoadLittle<Count>(fields, counts);
  const ZipEnd end{LoadLittle<Count>(fields, counts + sizeof(Count)),
                   LoadLittle<Size>(fields, sizes), LoadLittle<Size>(fields, sizes + sizeof(Size))};
  if (disk != 0)
    return Unsupported("the zip archive spans several disks (disk number {})", disk)
        .at(record_offset);
  if (entries_here != end.entries)
    return Corrupt("the {} counts {} entries on this disk and {} in all", name, entries_here,
                   end.entries)
        .at(record_offset);
  return end;
}

Result<ZipEnd> ParseEnd64(FileView file, uint64_t offset) {
  NXDKIT_ASSIGN(const std::string record, ReadBytes(file, offset, zip::kEnd64Bytes));
  const uint32_t signature = LoadLittle<uint32_t>(record);
  if (signature != zip::kEnd64Signature)
    return Corrupt("the zip64 end record has signature {:#010x}, expected {:#010x}", signature,
                   zip::kEnd64Signature)
        .at(offset);
  return ParseEnd<uint32_t, uint64_t, uint64_t>(std::string_view(record).substr(16), offset,
                                                "zip64 end record");
}

// The directory must end at or before `limit`, the offset of its end record.
Status CheckPlace(const ZipEnd& end, uint64_t limit) {
  if (end.directory_offset > limit || end.directory_bytes > limit - end.directory_offset)
    return Corrupt(
               "the central directory ({} bytes at offset {}) is not before its end record at {}",
               end.directory_bytes, end.directory_offset, limit)
        .at(limit);
  if (end.entries > end.directory_bytes / zip::kDirectoryEntryBytes)
    return Corrupt("{} entries do not fit into a central directory of {} bytes", end.entries,
                   end.directory_bytes)
        .at(limit);
  if (end.directory_bytes > kMaxDirectoryBytes)
    return Unsupported("the central directory has {} bytes, the limit is {}", end.directory_bytes,
                       kMaxDirectoryBytes)
        .at(end.directory_offset);
  return OkStatus();
}

// An end record without a comment, as torch writes it, is found without reading 64 KiB: an archive
// may be small, and one of thousands in its file.
Result<bool> EndsAtOnce(FileView file) {
  if (file.bytes() < zip::kEndBytes) return false;
  NXDKIT_ASSIGN(const std::string end,
                ReadBytes(file, file.bytes() - zip::kEndBytes, zip::kEndBytes));
  return FindEndRecord(end).has_value();
}

Result<ZipEnd> ReadEnd(FileView file) {
  NXDKIT_ASSIGN(const bool ends_at_once, EndsAtOnce(file));
  const uint64_t most = zip::kEndBytes + (ends_at_once ? 0 : kMaxCommentBytes);
  const uint64_t tail_bytes = std::min(file.bytes(), most);
  const uint64_t tail_offset = file.bytes() - tail_bytes;
  NXDKIT_ASSIGN(const std::string tail, ReadBytes(file, tail_offset, tail_bytes));
  const std::optional<size_t> found = FindEndRecord(tail);
  if (!found)
    return Corrupt("no end of a zip archive in the last {} bytes of {}", tail_bytes, file.bytes())
        .at(file.bytes())
        .hint("the file is cut off, or is still being written");
  const uint64_t offset = tail_offset + *found;
  NXDKIT_ASSIGN(const std::optional<uint64_t> offset64, FindEnd64(file, offset));
  NXDKIT_ASSIGN(const ZipEnd end,
                offset64 ? ParseEnd64(file, *offset64)
                         : ParseEnd<uint16_t, uint16_t, uint32_t>(
                               std::string_view(tail).substr(*found + 4), offset, "end record"));
  NXDKIT_TRY(CheckPlace(end, offset64.value_or(offset)));
  return end;
}

// Fills in the fields that did not fit into 32 bits, from the extra fields of a directory entry.
// Order in the zip64 field: inflated size, stored size, header offset; each only where needed.
Status ApplyZip64(std::string_view extra, ZipRecord& record) {
  ByteReader reader(extra);
  uint64_t id = 0;
  uint64_t bytes = 0;
  while (reader.left() >= 4 && reader.Number(2, id) && reader.Number(2, bytes)) {
    std::string_view field;
    if (!reader.Take(bytes, field))
      return Corrupt("extra field {:#06x} of {} bytes is cut off", id, bytes);
    if (id != zip::kZip64Extra) continue;
    ByteReader numbers(field);
    for (uint64_t* value : {&record.bytes, &record.stored_bytes, &record.header_offset})
      if (*value == zip::kIn64 && !numbers.Number(8, *value))
        return Corrupt("the zip64 extra field has only {} bytes", bytes);
    return OkStatus();
  }
  return OkStatus();
}

Status CheckKind(const ZipRecord& record, uint16_t flags, uint16_t disk) {
  if ((flags & zip::kEncryptedFlags) != 0)
    return Unsupported("the record is encrypted (flags {:#06x})", flags);
  if ((flags & zip::kPatchFlag) != 0)
    return Unsupported("the record holds a patch (flags {:#06x})", flags);
  if (disk != 0) return Unsupported("the record is on disk {} of the archive", disk);
  if (record.method != zip::kStored && record.method != zip::kDeflated)
    return Unsupported("the record is compressed by method {}, expected 0 (stored) or 8 (deflated)",
                       record.method);
  if (record.method == zip::kStored && record.stored_bytes != record.bytes)
    return Corrupt("the stored record has {} bytes in the file but claims {}", record.stored_bytes,
                   record.bytes);
  if (record.method == zip::kDeflated && record.bytes / kMaxInflation > record.stored_bytes)
    return Corrupt("{} deflated bytes cannot hold {} bytes", record.stored_bytes, record.bytes);
  return OkStatus();
}

}  // namespace

const ZipRecord* ZipDirectory::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &records_[found->second];
}

Status ZipDirectory::Parse(uint64_t entries, uint64_t directory_offset) {
  ByteReader reader(std::string_view(bytes_.data(), bytes_.size()));
  records_.reserve(static_cast<size_t>(entries));
  by_name_.reserve(static_cast<size_t>(entries));
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t at = directory_offset + reader.position();
    std::string_view fixed, extra, comment;
    if (!reader.Take(zip::kDirectoryEntryBytes, fixed) ||
        LoadLittle<uint32_t>(fixed) != zip::kDirectorySignature)
      return Corrupt("no central directory entry here (entry {} of {})", i + 1, entries).at(at);
    ZipRecord record;
    if (!reader.Take(LoadLittle<uint16_t>(fixed, 28), record.name) ||
        !reader.Take(LoadLittle<uint16_t>(fixed, 30), extra) ||
        !reader.Take(LoadLittle<uint16_t>(fixed, 32), comment))
      return Corrupt("central directory entry {} of {} is cut off", i + 1, entries).at(at);
    record.method = LoadLittle<uint16_t>(fixed, 10);
    record.crc = LoadLittle<uint32_t>(fixed, 16);
    record.stored_bytes = LoadLittle<uint32_t>(fixed, 20);
    record.bytes = LoadLittle<uint32_t>(fixed, 24);
    record.header_offset = LoadLittle<uint32_t>(fixed, 42);
    NXDKIT_TRY(ApplyZip64(extra, record).member(record.name).at(record.header_offset));
    NXDKIT_TRY(CheckKind(record, LoadLittle<uint16_t>(fixed, 8), LoadLittle<uint16_t>(fixed, 34))
                   .member(record.name)
                   .at(record.header_offset));
    if (!by_name_.emplace(record.name, records_.size()).second)
      return Corrupt("two records have this name").at(at).member(record.name);
    records_.push_back(record);
  }
  if (reader.left() == 0) return OkStatus();
  return Corrupt("{} bytes are left over after the {} entries of the central directory",
                 reader.left(), entries)
      .at(directory_offset + reader.position());
}

// The data begins after the local header, whose extra field has its own length (torch pads there).
// The rest of the local header is a repetition, or 0, so only its name and method are compared.
Status ZipDirectory::ReadLocalHeaders(FileView file, uint64_t directory_offset) {
  std::vector<size_t> order(records_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return records_[i].header_offset; });

  ReadWindow window(file, directory_offset);
  for (size_t i = 0; i < order.size(); ++i) {
    ZipRecord& record = records_[order[i]];
    const bool last = i + 1 == order.size();
    const uint64_t limit = last ? directory_offset : records_[order[i + 1]].header_offset;
    const uint64_t header_bytes = zip::kLocalBytes + record.name.size();
    NXDKIT_ASSIGN(const std::string_view header,
                  window.At(record.header_offset, header_bytes).member(record.name));
    const uint32_t signature = LoadLittle<uint32_t>(header);
    const uint16_t method = LoadLittle<uint16_t>(header, 8);
    const uint64_t name_bytes = LoadLittle<uint16_t>(header, 26);
    const uint64_t extra_bytes = LoadLittle<uint16_t>(header, 28);
    if (signature != zip::kLocalSignature)
      return InHeader(record, Corrupt("the local header has signature {:#010x}, expected {:#010x}",
                                      signature, zip::kLocalSignature));
    if (name_bytes != record.name.size() || header.substr(zip::kLocalBytes) != record.name)
      return InHeader(record,
                      Corrupt("the local header has another name than the central directory"));
    if (method != record.method)
      return InHeader(record, Corrupt("the local header says method {}, the central directory {}",
                                      method, record.method));
    record.data_offset = record.header_offset + header_bytes + extra_bytes;
    if (record.data_offset > limit || record.stored_bytes > limit - record.data_offset)
      return InHeader(record, Corrupt("the record's {} bytes at offset {} run into {} at {}",
                                      record.stored_bytes, record.data_offset,
                                      last ? "the directory" : "the next record", limit));
  }
  return OkStatus();
}

Result<ZipDirectory> ZipDirectory::Read(FileView file) {
  NXDKIT_ASSIGN(const ZipEnd end, ReadEnd(file));
  ZipDirectory directory;
  directory.bytes_.resize(static_cast<size_t>(end.directory_bytes));
  NXDKIT_TRY(
      file.ReadAt(end.directory_offset, std::as_writable_bytes(std::span(directory.bytes_))));
  NXDKIT_TRY(directory.Parse(end.entries, end.directory_offset));
  NXDKIT_TRY(directory.ReadLocalHeaders(file, end.directory_offset));
  return directory;
}

}  // namespace nxdkit::torch
