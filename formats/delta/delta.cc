#include "formats/delta/delta.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "formats/delta/file_format.h"
#include "lib/base/checked.h"
#include "lib/hash/crc32.h"
#include "lib/json/json.h"

namespace nxdkit::delta {
namespace {

template <typename T>
T Load(std::span<const std::byte> from, uint64_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

Sha256Bytes LoadDigest(std::span<const std::byte> from, uint64_t at) {
  Sha256Bytes digest;
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), kDigestBytes, digest.begin());
  return digest;
}

Result<Shape> ReadShape(const Json& json) {
  const Json* dims = JsonFind(json, "shape");
  if (dims == nullptr || !dims->is_array() || dims->size() > 64)
    return Error(Errc::kCorrupt, "expected an array of at most 64 sizes").member("shape");
  Shape shape;
  for (const Json& dim : *dims) {
    const std::optional<int64_t> size =
        dim.is_number_unsigned()  ? CheckedCast<int64_t>(dim.get<uint64_t>())
        : dim.is_number_integer() ? std::optional(dim.get<int64_t>())
                                  : std::nullopt;
    if (!size)
      return Error(Errc::kCorrupt, fmt::format("found {}, expected a size", JsonExcerpt(dim)))
          .member("shape");
    shape.push_back(*size);
  }
  return shape;
}

Result<Param> ReadParam(const Json& json) {
  Param param;
  NXDKIT_ASSIGN(param.name, JsonString(json, "name"));
  NXDKIT_ASSIGN(const std::string dtype, JsonString(json, "dtype"));
  const std::optional<Dtype> known = DtypeFromName(dtype);
  if (!known || !CanEncode(*known))
    return Error(Errc::kUnsupported, fmt::format("a delta of elements of dtype \"{}\"", dtype))
        .on(param.name);
  param.dtype = *known;
  NXDKIT_ASSIGN(param.shape, ReadShape(json));
  const Result<uint64_t> bytes = PackedBytes(param.dtype, param.shape);
  if (!bytes.ok()) return Error(bytes.error()).on(param.name);
  NXDKIT_ASSIGN(const int64_t changed, JsonInt(json, "changed"));
  if (changed < 0 || static_cast<uint64_t>(changed) > param.elements())
    return Error(Errc::kCorrupt,
                 fmt::format("{} of {} elements changed", changed, param.elements()))
        .on(param.name)
        .member("changed");
  param.changed = static_cast<uint64_t>(changed);
  return param;
}

}  // namespace

uint64_t Param::elements() const { return static_cast<uint64_t>(*ElementCount(shape)); }
uint64_t Param::bytes() const { return elements() * static_cast<uint64_t>(ElementBytes(dtype)); }
uint64_t Param::blocks() const {
  const uint64_t size = bytes();
  return size / kBlockBytes + (size % kBlockBytes != 0);
}
uint64_t Param::block_elements(uint64_t block) const {
  return std::min(kBlockBytes, bytes() - block * kBlockBytes) /
         static_cast<uint64_t>(ElementBytes(dtype));
}

bool LooksLikeDelta(const std::string& path) {
  const Result<File> file = File::OpenRead(path);
  std::array<std::byte, sizeof kMagic> bytes;
  return file.ok() && file->bytes() >= bytes.size() && file->ReadAt(0, bytes).ok() &&
         std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

std::array<std::byte, kHeaderBytes> MakeHeader(Coding coding, uint64_t payload_bytes,
                                               std::span<const std::byte> table,
                                               std::span<const std::byte> meta) {
  std::array<std::byte, kHeaderBytes> header{};
  size_t at = 0;
  const auto put = [&](const auto& value) {
    std::memcpy(header.data() + at, &value, sizeof value);
    at += sizeof value;
  };
  put(kMagic);
  put(kVersion);
  put(static_cast<uint32_t>(coding));
  put(payload_bytes);
  put(uint64_t{table.size()});
  put(uint64_t{meta.size()});
  Sha256 sum;
  sum.Update(std::span(header).first(kSumAt));
  sum.Update(table);
  sum.Update(meta);
  put(sum.Finish());
  return header;
}

Result<std::shared_ptr<const Delta>> Delta::Open(const std::string& path) {
  const std::shared_ptr<Delta> delta(new Delta());
  NXDKIT_ASSIGN(delta->file_, File::OpenRead(path));
  Status read = delta->ReadHead();
  if (!read.ok()) return std::move(read).error().in(path);
  return std::shared_ptr<const Delta>(delta);
}

Status Delta::ReadHead() {
  std::array<std::byte, kHeaderBytes> header;
  if (file_.bytes() < header.size())
    return Corrupt(0,
                   fmt::format("{} bytes, a delta has {} at least", file_.bytes(), header.size()));
  NXDKIT_TRY(file_.ReadAt(0, header));
  if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0)
    return Corrupt(0, "the first bytes are not those of a delta (or it was cut short in writing)");
  const uint32_t version = Load<uint32_t>(header, 8);
  const uint32_t coding = Load<uint32_t>(header, 12);
  if (version != kVersion)
    return Error(Errc::kUnsupported,
                 fmt::format("a delta of version {}, this program knows {}", version, kVersion))
        .at(8);
  if (coding > static_cast<uint32_t>(Coding::kUlp))
    return Error(Errc::kUnsupported, fmt::format("coding {}, this program knows 0 and 1", coding))
        .at(12);
  head_.coding = static_cast<Coding>(coding);
  payload_bytes_ = Load<uint64_t>(header, 16);
  const uint64_t table_bytes = Load<uint64_t>(header, 24);
  const uint64_t meta_bytes = Load<uint64_t>(header, 32);
  const uint64_t rest = file_.bytes() - kHeaderBytes;
  if (meta_bytes > kMaxMetaBytes)
    return Corrupt(
        32, fmt::format("{} bytes of meta are over the limit of {}", meta_bytes, kMaxMetaBytes));
  if (payload_bytes_ > rest || table_bytes > rest - payload_bytes_ ||
      meta_bytes != rest - payload_bytes_ - table_bytes)
    return Corrupt(16,
                   fmt::format("payload {}, table {} and meta {} are announced, {} bytes follow",
                               payload_bytes_, table_bytes, meta_bytes, rest));
  const uint64_t table_at = kHeaderBytes + payload_bytes_;
  std::string meta(meta_bytes, '\0');
  NXDKIT_TRY(file_.ReadAt(table_at + table_bytes, std::as_writable_bytes(std::span(meta))));
  Status parsed = ReadMeta(meta);
  if (!parsed.ok()) return std::move(parsed).error().at(table_at + table_bytes);
  uint64_t blocks = 0;
  for (const Param& param : head_.params) {
    first_block_.push_back(blocks);
    const std::optional<uint64_t> sum = CheckedAdd(blocks, param.blocks());
    if (!sum || *sum > table_bytes)
      return Corrupt(24, fmt::format("{} bytes of table are too few for the blocks of {}",
                                     table_bytes, param.name));
    blocks = *sum;
  }
  const uint64_t expected = DigestsBytes(head_.params.size()) + kTableRow * blocks;
  if (table_bytes != expected)
    return Corrupt(24, fmt::format("{} bytes of table, expected {} for {} parameters and {} blocks",
                                   table_bytes, expected, head_.params.size(), blocks));
  std::vector<std::byte> table(table_bytes);
  NXDKIT_TRY(file_.ReadAt(table_at, table));
  const auto again = MakeHeader(head_.coding, payload_bytes_, table,
                                std::as_bytes(std::span(meta.data(), meta.size())));
  if (again != header) return Corrupt(kSumAt, "the checksum over header, table and meta is wrong");
  return ReadTable(table, table_at);
}

Status Delta::ReadMeta(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  NXDKIT_ASSIGN(const int64_t block_bytes, JsonInt(json, "block_bytes"));
  if (block_bytes != static_cast<int64_t>(kBlockBytes))
    return Error(Errc::kUnsupported,
                 fmt::format("blocks of {} bytes, this program knows {}", block_bytes, kBlockBytes))
        .member("block_bytes");
  const Json* params = JsonFind(json, "params");
  if (params == nullptr || !params->is_array())
    return Error(Errc::kCorrupt, "expected an array").member("params");
  std::set<std::string_view> names;
  head_.params.reserve(params->size());
  for (const Json& row : *params) {
    NXDKIT_ASSIGN(Param param, ReadParam(row));
    head_.params.push_back(std::move(param));
    if (!names.insert(head_.params.back().name).second)
      return Error(Errc::kCorrupt, "the parameter is there twice").on(head_.params.back().name);
  }
  return OkStatus();
}

Status Delta::ReadTable(std::span<const std::byte> table, uint64_t at) {
  head_.base = LoadDigest(table, 0);
  head_.result = LoadDigest(table, kDigestBytes);
  uint64_t row = 2 * kDigestBytes;
  for (Param& param : head_.params) {
    param.base = LoadDigest(table, row);
    param.result = LoadDigest(table, row + kDigestBytes);
    row += 2 * kDigestBytes;
  }
  uint64_t used = 0;
  for (; row < table.size(); row += kTableRow) {
    const Block block{kHeaderBytes + used, Load<uint32_t>(table, row),
                      Load<uint32_t>(table, row + 4)};
    if (block.bytes > payload_bytes_ - used)
      return Corrupt(at + row, fmt::format("a block of {} bytes, but {} of {} are left",
                                           block.bytes, payload_bytes_ - used, payload_bytes_));
    used += block.bytes;
    blocks_.push_back(block);
  }
  if (used == payload_bytes_) return OkStatus();
  return Corrupt(at, fmt::format("the blocks take {} of {} bytes", used, payload_bytes_));
}

Status Delta::Read(size_t param, uint64_t index, BlockDecoder& decoder, Changes& changes) const {
  const Param& of = head_.params[param];
  NXDKIT_CHECK(index < of.blocks());
  const Block& block = blocks_[first_block_[param] + index];
  changes.at.clear();
  changes.values.clear();
  if (block.bytes == 0) return OkStatus();
  std::vector<std::byte> bytes(block.bytes);
  NXDKIT_TRY(file_.ReadAt(block.offset, bytes));
  if (const uint32_t crc = Crc32(0, bytes); crc != block.crc)
    return Error(Errc::kCorrupt, fmt::format("block {} is damaged: its CRC-32 is {:08x}, expected "
                                             "{:08x}",
                                             index, crc, block.crc))
        .in(path())
        .on(of.name)
        .at(block.offset);
  Status decoded = decoder.Decode(of.dtype, of.block_elements(index), bytes, changes);
  if (decoded.ok()) return decoded;
  const Error& inner = decoded.error();
  return Error(inner.code(), fmt::format("block {}: {}", index, inner.message()))
      .in(path())
      .on(of.name)
      .at(block.offset + inner.offset().value_or(0));
}

}  // namespace nxdkit::delta
