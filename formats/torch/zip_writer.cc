#include "formats/torch/zip_writer.h"

#include <fmt/core.h>

#include <concepts>

#include "formats/torch/zip_format.h"
#include "lib/base/checked.h"
#include "lib/hash/crc32.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kZip64LocalBytes = 4 + 16;  // id, length, two sizes
constexpr uint64_t kPaddingHeaderBytes = 4;    // id, length
constexpr uint16_t kPlainVersion = 10;         // what it takes to extract, by the zip specification
constexpr uint16_t kZip64Version = 45;

// `bytes` or an offset that its 32-bit field cannot hold.
bool Needs64(uint64_t value) { return value >= zip::kIn64; }

uint64_t LocalHeaderBytes(const OutputRecord& record) {
  return zip::kLocalBytes + record.name.size() + (Needs64(record.bytes) ? kZip64LocalBytes : 0) +
         kPaddingHeaderBytes;
}

uint64_t DirectoryExtraBytes(const OutputRecord& record) {
  const uint64_t numbers =
      (Needs64(record.bytes) ? 2u : 0u) + (Needs64(record.header_offset) ? 1u : 0u);
  return numbers == 0 ? 0 : 4 + 8 * numbers;
}

uint64_t DirectoryBytes(const ZipLayout& layout) {
  uint64_t bytes = 0;
  for (const OutputRecord& record : layout.records)
    bytes += zip::kDirectoryEntryBytes + record.name.size() + DirectoryExtraBytes(record);
  return bytes;
}

bool NeedsEnd64(const ZipLayout& layout, uint64_t directory_bytes) {
  return layout.records.size() >= zip::kCountIn64 || Needs64(layout.directory_offset) ||
         Needs64(directory_bytes);
}

class Bytes {
 public:
  template <std::unsigned_integral T>
  Bytes& Number(std::type_identity_t<T> value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Bytes& U16(uint64_t value) { return Number<uint16_t>(static_cast<uint16_t>(value)); }
  Bytes& U32(uint64_t value) { return Number<uint32_t>(static_cast<uint32_t>(value)); }
  Bytes& U64(uint64_t value) { return Number<uint64_t>(value); }
  // A number of 32 bits, or the sign that it is in the zip64 field.
  Bytes& U32Or64(uint64_t value) { return U32(Needs64(value) ? zip::kIn64 : value); }
  Bytes& Text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Bytes& Fill(size_t count, char c) {
    bytes_.append(count, c);
    return *this;
  }
  std::string Take() { return std::exchange(bytes_, {}); }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

void PutLocalHeader(Bytes& out, const OutputRecord& record, uint32_t crc) {
  const bool wide = Needs64(record.bytes);
  const uint64_t padding = record.data_offset - record.header_offset - LocalHeaderBytes(record);
  out.U32(zip::kLocalSignature).U16(wide ? kZip64Version : kPlainVersion);
  out.U16(zip::kUtf8Flag).U16(zip::kStored).U32(0);  // time and date 0: same input, same bytes
  out.U32(crc).U32Or64(record.bytes).U32Or64(record.bytes).U16(record.name.size());
  out.U16((wide ? kZip64LocalBytes : 0) + kPaddingHeaderBytes + padding).Text(record.name);
  if (wide) out.U16(zip::kZip64Extra).U16(16).U64(record.bytes).U64(record.bytes);
  out.U16(zip::kPaddingExtra).U16(padding).Fill(padding, 'Z');
}

void PutDirectoryEntry(Bytes& out, const OutputRecord& record, uint32_t crc) {
  const uint64_t extra = DirectoryExtraBytes(record);
  const uint16_t version = extra != 0 ? kZip64Version : kPlainVersion;
  out.U32(zip::kDirectorySignature).U16(version).U16(version);
  out.U16(zip::kUtf8Flag).U16(zip::kStored).U32(0);
  out.U32(crc).U32Or64(record.bytes).U32Or64(record.bytes).U16(record.name.size());
  out.U16(extra).U16(0).U16(0).U16(0).U32(0);  // comment, disk, attributes
  out.U32Or64(record.header_offset).Text(record.name);
  if (extra == 0) return;
  out.U16(zip::kZip64Extra).U16(extra - 4);
  if (Needs64(record.bytes)) out.U64(record.bytes).U64(record.bytes);
  if (Needs64(record.header_offset)) out.U64(record.header_offset);
}

void PutEnd(Bytes& out, const ZipLayout& layout) {
  const uint64_t bytes = DirectoryBytes(layout);
  const uint64_t count = layout.records.size();
  if (NeedsEnd64(layout, bytes)) {
    const uint64_t end64_offset = layout.directory_offset + bytes;
    out.U32(zip::kEnd64Signature).U64(zip::kEnd64Bytes - 12).U16(kZip64Version).U16(kZip64Version);
    out.U32(0).U32(0).U64(count).U64(count).U64(bytes).U64(layout.directory_offset);
    out.U32(zip::kLocatorSignature).U32(0).U64(end64_offset).U32(1);
  }
  const uint64_t short_count = std::min<uint64_t>(count, zip::kCountIn64);
  out.U32(zip::kEndSignature).U16(0).U16(0).U16(short_count).U16(short_count);
  out.U32Or64(bytes).U32Or64(layout.directory_offset).U16(0);
}

uint32_t ContentsCrc(const OutputRecord& record) {
  return Crc32(0, std::as_bytes(std::span(record.contents)));
}

}  // namespace

Result<ZipLayout> LayOutZip(std::vector<OutputRecord> records) {
  constexpr uint64_t kMaxFileBytes = uint64_t{1} << 63;
  ZipLayout layout;
  uint64_t at = 0;
  for (OutputRecord& record : records) {
    if (record.name.size() > 0xffff)
      return Error(Errc::kUnsupported, fmt::format("a record name of {} bytes, the limit is 65535",
                                                   record.name.size()));
    if (!record.external) record.bytes = record.contents.size();
    record.header_offset = at;
    const uint64_t unpadded = at + LocalHeaderBytes(record);
    record.data_offset =
        (unpadded + zip::kDataAlignment - 1) / zip::kDataAlignment * zip::kDataAlignment;
    const std::optional<uint64_t> end = CheckedAdd(record.data_offset, record.bytes);
    if (!end || *end > kMaxFileBytes)
      return Error(Errc::kUnsupported,
                   fmt::format("the archive would have more than {} bytes", kMaxFileBytes))
          .member(record.name);
    at = *end;
  }
  layout.records = std::move(records);
  layout.directory_offset = at;
  const uint64_t directory_bytes = DirectoryBytes(layout);
  layout.file_bytes = at + directory_bytes + zip::kEndBytes;
  if (NeedsEnd64(layout, directory_bytes))
    layout.file_bytes += zip::kEnd64Bytes + zip::kLocatorBytes;
  return layout;
}

std::vector<Fragment> ZipFrame(const ZipLayout& layout, std::span<const uint32_t> crcs) {
  std::vector<Fragment> fragments;
  Bytes directory;
  Bytes open;  // what follows the last external data
  uint64_t open_offset = 0;
  size_t external = 0;
  for (const OutputRecord& record : layout.records) {
    if (record.external) NXDKIT_CHECK(external < crcs.size());
    const uint32_t crc = record.external ? crcs[external++] : ContentsCrc(record);
    PutDirectoryEntry(directory, record, crc);
    PutLocalHeader(open, record, crc);
    if (!record.external) {
      open.Text(record.contents);
    } else if (record.bytes != 0) {
      fragments.push_back({open_offset, open.Take()});
      open_offset = record.data_offset + record.bytes;
    }
  }
  open.Text(directory.Take());
  PutEnd(open, layout);
  fragments.push_back({open_offset, open.Take()});
  return fragments;
}

}  // namespace nxdkit::torch
