#include "formats/torch/zip_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "formats/torch/byte_reader.h"
#include "formats/torch/read_window.h"
#include "formats/torch/zip_end.h"
#include "formats/torch/zip_format.h"

namespace nxdkit::torch {
namespace {

// Deflate cannot expand by more than this (258 bytes from 2 bits), so a larger claim is a lie.
constexpr uint64_t kMaxInflation = 1032;

Error Corrupt(const ZipRecord& record, std::string message) {
  return Error(Errc::kCorrupt, std::move(message)).member(record.name).at(record.header_offset);
}

// Fills in the fields that did not fit into 32 bits, from the extra fields of a directory entry.
// Order in the zip64 field: inflated size, stored size, header offset; each only where needed.
Status ApplyZip64(std::string_view extra, ZipRecord& record) {
  ByteReader reader(extra);
  while (reader.left() >= 4) {
    const uint16_t id = *reader.Number<uint16_t>();
    const uint16_t bytes = *reader.Number<uint16_t>();
    const std::optional<std::string_view> field = reader.Take(bytes);
    if (!field)
      return Corrupt(record, fmt::format("extra field {:#06x} of {} bytes is cut off", id, bytes));
    if (id != zip::kZip64Extra) continue;
    ByteReader numbers(*field);
    for (uint64_t* value : {&record.bytes, &record.stored_bytes, &record.header_offset}) {
      if (*value != zip::kIn64) continue;
      const std::optional<uint64_t> wide = numbers.Number<uint64_t>();
      if (!wide)
        return Corrupt(record, fmt::format("the zip64 extra field has only {} bytes", bytes));
      *value = *wide;
    }
    return OkStatus();
  }
  return OkStatus();
}

Status CheckKind(const ZipRecord& record, uint16_t flags, uint16_t disk) {
  const auto unsupported = [&](std::string message) {
    return Error(Errc::kUnsupported, std::move(message))
        .member(record.name)
        .at(record.header_offset);
  };
  if ((flags & zip::kEncryptedFlags) != 0)
    return unsupported(fmt::format("the record is encrypted (flags {:#06x})", flags));
  if ((flags & zip::kPatchFlag) != 0)
    return unsupported(fmt::format("the record holds a patch (flags {:#06x})", flags));
  if (disk != 0) return unsupported(fmt::format("the record is on disk {} of the archive", disk));
  if (record.method != zip::kStored && record.method != zip::kDeflated)
    return unsupported(
        fmt::format("the record is compressed by method {}, expected 0 (stored) or 8 "
                    "(deflated)",
                    record.method));
  if (record.method == zip::kStored && record.stored_bytes != record.bytes)
    return Corrupt(record, fmt::format("the stored record has {} bytes in the file but claims {}",
                                       record.stored_bytes, record.bytes));
  if (record.method == zip::kDeflated && record.bytes / kMaxInflation > record.stored_bytes)
    return Corrupt(record, fmt::format("{} deflated bytes cannot hold {} bytes",
                                       record.stored_bytes, record.bytes));
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
    const std::optional<std::string_view> fixed = reader.Take(zip::kDirectoryEntryBytes);
    if (!fixed || LittleEndian<uint32_t>(*fixed) != zip::kDirectorySignature)
      return Error(Errc::kCorrupt,
                   fmt::format("no central directory entry here (entry {} of {})", i + 1, entries))
          .at(at);
    const std::optional<std::string_view> name =
        reader.Take(LittleEndian<uint16_t>(fixed->substr(28)));
    const std::optional<std::string_view> extra =
        reader.Take(LittleEndian<uint16_t>(fixed->substr(30)));
    const std::optional<std::string_view> comment =
        reader.Take(LittleEndian<uint16_t>(fixed->substr(32)));
    if (!name || !extra || !comment)
      return Error(Errc::kCorrupt,
                   fmt::format("central directory entry {} of {} is cut off", i + 1, entries))
          .at(at);

    ZipRecord record;
    record.name = *name;
    record.method = LittleEndian<uint16_t>(fixed->substr(10));
    record.crc = LittleEndian<uint32_t>(fixed->substr(16));
    record.stored_bytes = LittleEndian<uint32_t>(fixed->substr(20));
    record.bytes = LittleEndian<uint32_t>(fixed->substr(24));
    record.header_offset = LittleEndian<uint32_t>(fixed->substr(42));
    NXDKIT_TRY(ApplyZip64(*extra, record));
    NXDKIT_TRY(CheckKind(record, LittleEndian<uint16_t>(fixed->substr(8)),
                         LittleEndian<uint16_t>(fixed->substr(34))));
    if (!by_name_.emplace(record.name, records_.size()).second)
      return Error(Errc::kCorrupt, "two records have this name").member(record.name).at(at);
    records_.push_back(record);
  }
  if (reader.left() != 0)
    return Error(Errc::kCorrupt, fmt::format("{} bytes are left over after the {} entries of the "
                                             "central directory",
                                             reader.left(), entries))
        .at(directory_offset + reader.position());
  return OkStatus();
}

// The data begins after the local header, whose extra field has its own length (torch pads there);
// everything else the local header says is repeated, or is 0, so only its name and method are met.
Status ZipDirectory::ReadLocalHeaders(const File& file, uint64_t directory_offset) {
  std::vector<size_t> order(records_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return records_[i].header_offset; });

  ReadWindow window(file, directory_offset);
  for (size_t i = 0; i < order.size(); ++i) {
    ZipRecord& record = records_[order[i]];
    const uint64_t limit =
        i + 1 < order.size() ? records_[order[i + 1]].header_offset : directory_offset;
    const uint64_t header_bytes = zip::kLocalBytes + record.name.size();
    Result<std::string_view> header = window.At(record.header_offset, header_bytes);
    if (!header.ok()) return std::move(header).error().member(record.name);
    if (LittleEndian<uint32_t>(*header) != zip::kLocalSignature)
      return Corrupt(record,
                     fmt::format("the local header has signature {:#010x}, expected {:#010x}",
                                 LittleEndian<uint32_t>(*header), zip::kLocalSignature));
    const uint64_t name_bytes = LittleEndian<uint16_t>(header->substr(26));
    const uint64_t extra_bytes = LittleEndian<uint16_t>(header->substr(28));
    if (name_bytes != record.name.size() || header->substr(zip::kLocalBytes) != record.name)
      return Corrupt(record, "the local header has another name than the central directory");
    if (LittleEndian<uint16_t>(header->substr(8)) != record.method)
      return Corrupt(record,
                     fmt::format("the local header says method {}, the central directory {}",
                                 LittleEndian<uint16_t>(header->substr(8)), record.method));
    record.data_offset = record.header_offset + header_bytes + extra_bytes;
    if (record.data_offset > limit || record.stored_bytes > limit - record.data_offset)
      return Corrupt(
          record, fmt::format("the record's {} bytes at offset {} run into {} at {}",
                              record.stored_bytes, record.data_offset,
                              i + 1 < order.size() ? "the next record" : "the directory", limit));
  }
  return OkStatus();
}

Result<ZipDirectory> ZipDirectory::Read(const File& file) {
  NXDKIT_ASSIGN(const ZipEnd end, ReadZipEnd(file));
  ZipDirectory directory;
  directory.bytes_.resize(static_cast<size_t>(end.directory_bytes));
  NXDKIT_TRY(
      file.ReadAt(end.directory_offset, std::as_writable_bytes(std::span(directory.bytes_))));
  NXDKIT_TRY(directory.Parse(end.entries, end.directory_offset));
  NXDKIT_TRY(directory.ReadLocalHeaders(file, end.directory_offset));
  return directory;
}

}  // namespace nxdkit::torch
