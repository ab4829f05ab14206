#include "formats/delta/delta.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "formats/delta/file_format.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/hash/crc32.h"

namespace nxdkit::delta {
namespace {

Sha256Bytes LoadDigest(std::span<const std::byte> from, uint64_t at) {
  Sha256Bytes digest;
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), kDigestBytes, digest.begin());
  return digest;
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

Result<bool> LooksLikeDelta(const std::string& path) {
  NXDKIT_ASSIGN(const std::string start, ReadStart(path, sizeof kMagic));
  return start.size() == sizeof kMagic && std::memcmp(start.data(), kMagic, sizeof kMagic) == 0;
}

Result<std::shared_ptr<const Delta>> Delta::Open(const std::string& path) {
  const std::shared_ptr<Delta> delta(new Delta());
  NXDKIT_ASSIGN(delta->file_, File::OpenRead(path));
  NXDKIT_TRY(delta->ReadHead().in(path));
  return std::shared_ptr<const Delta>(delta);
}

Status Delta::ReadHead() {
  std::array<std::byte, kHeaderBytes> header;
  if (file_.bytes() < header.size())
    return Corrupt("{} bytes, a delta has {} at least", file_.bytes(), header.size()).at(0);
  NXDKIT_TRY(file_.ReadAt(0, header));
  if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0)
    return Corrupt(
               "the first bytes are not those of a delta (or it was truncated while being written)")
        .at(0);
  const uint32_t version = LoadLittle<uint32_t>(header, 8);
  const uint32_t coding = LoadLittle<uint32_t>(header, 12);
  if (version != kVersion)
    return Unsupported("a delta of version {}, this program knows {}", version, kVersion).at(8);
  if (coding > static_cast<uint32_t>(Coding::kUlp))
    return Unsupported("coding {}, this program knows 0 and 1", coding).at(12);
  head_.coding = static_cast<Coding>(coding);
  payload_bytes_ = LoadLittle<uint64_t>(header, 16);
  const uint64_t table_bytes = LoadLittle<uint64_t>(header, 24);
  const uint64_t meta_bytes = LoadLittle<uint64_t>(header, 32);
  const uint64_t rest = file_.bytes() - kHeaderBytes;
  if (meta_bytes > kMaxMetaBytes)
    return Corrupt("{} bytes of meta are over the limit of {}", meta_bytes, kMaxMetaBytes).at(32);
  if (payload_bytes_ > rest || table_bytes > rest - payload_bytes_ ||
      meta_bytes != rest - payload_bytes_ - table_bytes)
    return Corrupt("payload {}, table {} and meta {} are announced, {} bytes follow",
                   payload_bytes_, table_bytes, meta_bytes, rest)
        .at(16);
  const uint64_t table_at = kHeaderBytes + payload_bytes_;
  std::string meta(meta_bytes, '\0');
  NXDKIT_TRY(file_.ReadAt(table_at + table_bytes, std::as_writable_bytes(std::span(meta))));
  NXDKIT_ASSIGN(head_.params, ReadMeta(meta).at(table_at + table_bytes));
  uint64_t blocks = 0;
  for (const Param& param : head_.params) {
    first_block_.push_back(blocks);
    const std::optional<uint64_t> sum = CheckedAdd(blocks, param.blocks());
    if (!sum || *sum > table_bytes)
      return Corrupt("{} bytes of table are too few for the blocks of {}", table_bytes, param.name)
          .at(24);
    blocks = *sum;
  }
  const uint64_t expected = DigestsBytes(head_.params.size()) + kTableRow * blocks;
  if (table_bytes != expected)
    return Corrupt("{} bytes of table, expected {} for {} parameters and {} blocks", table_bytes,
                   expected, head_.params.size(), blocks)
        .at(24);
  std::vector<std::byte> table(table_bytes);
  NXDKIT_TRY(file_.ReadAt(table_at, table));
  const auto again =
      MakeHeader(head_.coding, payload_bytes_, table, std::as_bytes(std::span(meta)));
  if (again != header)
    return Corrupt("the checksum over header, table and meta is wrong").at(kSumAt);
  return ReadTable(table, table_at);
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
    const Block block{kHeaderBytes + used, LoadLittle<uint32_t>(table, row),
                      LoadLittle<uint32_t>(table, row + 4)};
    if (block.bytes > payload_bytes_ - used)
      return Corrupt("a block of {} bytes, but {} of {} are left", block.bytes,
                     payload_bytes_ - used, payload_bytes_)
          .at(at + row);
    used += block.bytes;
    blocks_.push_back(block);
  }
  if (used == payload_bytes_) return OkStatus();
  return Corrupt("the blocks take {} of {} bytes", used, payload_bytes_).at(at);
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
    return Corrupt("block {} is damaged: its CRC-32 is {:08x}, expected {:08x}", index, crc,
                   block.crc)
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
