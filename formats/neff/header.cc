#include "formats/neff/header.h"

#include <algorithm>
#include <cstring>

#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/hash/hash_file.h"

namespace nxdkit::neff {
namespace {

// Offsets of the fields; all numbers are little-endian.
constexpr size_t kPackage = 0;
constexpr size_t kHeaderSize = 8;
constexpr size_t kDataSize = 16;
constexpr size_t kMajor = 24;
constexpr size_t kMinor = 32;
constexpr size_t kBuild = 40, kBuildBytes = 128;
constexpr size_t kHash = 172;
constexpr size_t kUuid = 204;
constexpr size_t kName = 220, kNameBytes = 256;
constexpr size_t kCores = 476;
constexpr size_t kFeatures = 544;
constexpr size_t kLnc = 552;

constexpr size_t kTarMagic = 257;  // "ustar" in the first block of a tar archive
constexpr size_t kProbeBytes = kHeaderBytes + kTarMagic + 5;
constexpr size_t kBlock = 1 << 20;

// The text up to the first NUL, or the whole field.
std::string Text(std::span<const std::byte> bytes, size_t offset, size_t size) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data() + offset);
  return std::string(begin, ::strnlen(begin, size));
}

// `bytes` start at the header: kProbeBytes of them, or as many as there are.
Payload PayloadOf(std::span<const std::byte> bytes) {
  if (bytes.size() >= kHeaderBytes + 2 && bytes[kHeaderBytes] == std::byte{0x1f} &&
      bytes[kHeaderBytes + 1] == std::byte{0x8b})
    return Payload::kGzip;
  if (bytes.size() >= kProbeBytes &&
      std::memcmp(bytes.data() + kHeaderBytes + kTarMagic, "ustar", 5) == 0)
    return Payload::kTar;
  return Payload::kUnknown;
}

// The first 16 bytes of every header, by package version.
using Start = std::array<std::byte, 16>;
constexpr Start StartOf(uint8_t package) {
  Start start = {};
  start[kPackage] = std::byte{package};
  start[kHeaderSize + 1] = std::byte{kHeaderBytes >> 8};
  return start;
}
constexpr std::array<Start, 2> kStarts = {StartOf(1), StartOf(2)};

// The first place in `block`, from `from` on, where a header may begin; block.size() for none.
// Searches for the one byte of the header size that is not 0, so that each byte is visited once.
size_t NextStart(std::span<const std::byte> block, size_t from) {
  constexpr size_t kMark = kHeaderSize + 1;
  for (size_t at = from; at + sizeof(Start) <= block.size(); ++at) {
    const void* mark =
        std::memchr(block.data() + at + kMark, int{kHeaderBytes >> 8}, block.size() - at - kMark);
    if (mark == nullptr) break;
    at = static_cast<size_t>(static_cast<const std::byte*>(mark) - block.data()) - kMark;
    if (at + sizeof(Start) > block.size()) break;
    for (const Start& start : kStarts)
      if (std::memcmp(block.data() + at, start.data(), start.size()) == 0) return at;
  }
  return block.size();
}

// `bytes` start at the header: at least kProbeBytes, or as many as there are.
Result<Located> LocatedIn(std::span<const std::byte> bytes, uint64_t offset, uint64_t end,
                          const std::string& path) {
  Result<Header> header = ParseHeader(bytes, end - offset);
  if (header.ok()) return Located{offset, *std::move(header), PayloadOf(bytes)};
  const Error& error = header.error();
  return Error(error.code(), error.message()).in(path).at(offset + error.offset().value_or(0));
}

}  // namespace

std::string_view PayloadName(Payload payload) {
  return payload == Payload::kGzip ? "gzip" : payload == Payload::kTar ? "tar" : "unknown";
}

std::string UuidText(const Header& header) {
  std::string text = HexText(header.uuid);
  for (const size_t at : {20, 16, 12, 8}) text.insert(at, 1, '-');
  return text;
}

std::string HashText(const Header& header) {
  const std::span hash(header.hash);
  return header.package == 2 ? "md5:" + HexText(hash.first(16)) : "sha256:" + HexText(hash);
}

Result<Header> ParseHeader(std::span<const std::byte> bytes, uint64_t available) {
  if (const auto there = std::min<uint64_t>(bytes.size(), available); there < kHeaderBytes)
    return Corrupt("ends inside the header: {} of {} bytes are there", there, kHeaderBytes)
        .at(there);
  Header header;
  header.package = LoadLittle<uint64_t>(bytes, kPackage);
  if (header.package != 1 && header.package != 2)
    return Corrupt("package version {} found, 1 or 2 expected", header.package).at(kPackage);
  if (const auto size = LoadLittle<uint64_t>(bytes, kHeaderSize); size != kHeaderBytes)
    return Corrupt("header size {} found, {} expected", size, kHeaderBytes).at(kHeaderSize);
  header.data_bytes = LoadLittle<uint64_t>(bytes, kDataSize);
  if (header.data_bytes > available - kHeaderBytes)
    return Corrupt("data size {} is past the end: {} bytes are left", header.data_bytes,
                   available - kHeaderBytes)
        .at(kDataSize);
  if (header.data_bytes == 0) return Corrupt("data size 0: there is no payload").at(kDataSize);
  header.major = LoadLittle<uint64_t>(bytes, kMajor);
  header.minor = LoadLittle<uint64_t>(bytes, kMinor);
  header.build = Text(bytes, kBuild, kBuildBytes);
  std::copy_n(bytes.begin() + kHash, header.hash.size(), header.hash.begin());
  std::copy_n(bytes.begin() + kUuid, header.uuid.size(), header.uuid.begin());
  header.name = Text(bytes, kName, kNameBytes);
  header.cores = LoadLittle<uint32_t>(bytes, kCores);
  header.features = LoadLittle<uint64_t>(bytes, kFeatures);
  header.lnc = LoadLittle<uint32_t>(bytes, kLnc);
  return header;
}

Result<Located> ReadAt(const File& file, uint64_t offset, uint64_t end) {
  NXDKIT_CHECK(offset <= end && end <= file.bytes());
  std::vector<std::byte> bytes(std::min<uint64_t>(kProbeBytes, end - offset));
  NXDKIT_TRY(file.ReadAt(offset, bytes));
  return LocatedIn(bytes, offset, end, file.path());
}

Result<std::vector<Located>> Find(const File& file, uint64_t offset, uint64_t end, size_t most,
                                  const std::function<Status()>& poll,
                                  std::vector<Error>* damaged) {
  std::vector<Located> found;
  std::vector<std::byte> block;
  // Blocks overlap by the bytes that a header's check needs, so that no header is split.
  while (offset < end && end - offset > kHeaderBytes) {
    if (poll) NXDKIT_TRY(poll());
    block.resize(std::min<uint64_t>(kBlock, end - offset));
    NXDKIT_TRY(file.ReadAt(offset, block));
    const bool last = offset + block.size() == end;
    const uint64_t looked_at = last ? block.size() : block.size() - kProbeBytes;
    uint64_t next = looked_at;  // where to continue
    for (uint64_t at = NextStart(block, 0); at < looked_at;) {
      const auto bytes = std::span<const std::byte>(block).subspan(static_cast<size_t>(at));
      const Result<Located> neff = LocatedIn(bytes, offset + at, end, file.path());
      const bool is_one = neff.ok() && neff->payload != Payload::kUnknown;
      if (is_one && found.size() == most)
        return OverLimit("more than {} NEFFs", most).in(file.path());
      if (is_one) found.push_back(*neff);
      const bool is_damaged = !neff.ok() && PayloadOf(bytes) != Payload::kUnknown;
      if (is_damaged && damaged != nullptr && damaged->size() < most)
        damaged->push_back(neff.error());
      at += is_one ? kHeaderBytes + neff->header.data_bytes : 1;
      next = std::max(next, at);
      if (at < looked_at) at = NextStart(block, static_cast<size_t>(at));
    }
    offset += next;
  }
  return found;
}

Result<bool> HashMatches(const File& file, const Located& neff,
                         const std::function<Status()>& poll) {
  const auto matches = [&]<typename Bytes>(Bytes) -> Result<bool> {
    NXDKIT_ASSIGN(const Bytes hash,
                  HashFile<Bytes>(file, neff.data_offset(), neff.header.data_bytes, poll));
    return std::ranges::equal(hash, std::span(neff.header.hash).first(hash.size()));
  };
  return neff.header.package == 2 ? matches(Md5Bytes{}) : matches(Sha256Bytes{});
}

}  // namespace nxdkit::neff
