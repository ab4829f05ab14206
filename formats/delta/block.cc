#include "formats/delta/block.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/delta/file_format.h"
#include "lib/base/errors.h"

namespace nxdkit::delta {
namespace {

static_assert(std::endian::native == std::endian::little);

// A block: u32 changed elements, u32 bytes of the gaps, u32 stored bytes of each section (the gaps,
// then one plane for each byte of an element, lowest first), then the sections.
constexpr size_t kWord = 4;
constexpr int kLevel = 1;         // sections are noise but for their histogram: more finds no more
constexpr size_t kMaxVarint = 3;  // 2^20 elements at most

size_t HeadBytes(size_t planes) { return kWord * (3 + planes); }

void PutWord(std::vector<std::byte>& to, size_t at, size_t value) {
  const uint32_t word = static_cast<uint32_t>(value);
  std::memcpy(to.data() + at, &word, kWord);
}

uint64_t GetWord(std::span<const std::byte> from, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, from.data() + at, kWord);
  return word;
}

// Calls `f` with a zero of the unsigned type of the element's width.
template <typename F>
auto WithWidth(Dtype dtype, const F& f) {
  const auto bytes = ElementBytes(dtype);
  if (bytes == 1) return f(uint8_t{});
  if (bytes == 2) return f(uint16_t{});
  return bytes == 4 ? f(uint32_t{}) : f(uint64_t{});
}

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Maps sign and magnitude to a scale on which neighbours differ by one, and back. Its own inverse
// except for the sign.
template <typename T>
T ToScale(T bits) {
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  return static_cast<T>((bits & kSign) != 0 ? ~bits : bits | kSign);
}
template <typename T>
T FromScale(T scale) {
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  return static_cast<T>((scale & kSign) != 0 ? scale ^ kSign : ~scale);
}

// Maps differences modulo 2^bits, so that small ones of both signs become small numbers.
template <typename T>
T Zigzag(T difference) {
  const T sign = static_cast<T>(-(difference >> (8 * sizeof(T) - 1)));
  return static_cast<T>(static_cast<T>(difference << 1) ^ sign);
}
template <typename T>
T Unzigzag(T value) {
  return static_cast<T>(static_cast<T>(value >> 1) ^ static_cast<T>(-(value & 1)));
}

template <typename T>
T Moved(T base, T result, bool floating) {
  const T from = floating ? ToScale(base) : base;
  const T to = floating ? ToScale(result) : result;
  return Zigzag(static_cast<T>(to - from));
}
template <typename T>
T Move(T base, T moved, bool floating) {
  const T from = floating ? ToScale(base) : base;
  const T to = static_cast<T>(from + Unzigzag(moved));
  return floating ? FromScale(to) : to;
}

// Compares eight bytes at a time: most are equal.
template <typename T>
void Find(std::span<const std::byte> base, std::span<const std::byte> result, Coding coding,
          bool floating, Changes& changes) {
  changes.at.clear();
  changes.values.clear();
  const size_t count = base.size() / sizeof(T);
  const auto look = [&](size_t i) {
    const T before = Load<T>(base.data() + i * sizeof(T));
    const T after = Load<T>(result.data() + i * sizeof(T));
    if (before == after) return;
    changes.at.push_back(static_cast<uint32_t>(i));
    changes.values.push_back(coding == Coding::kRaw ? after : Moved(before, after, floating));
  };
  constexpr size_t kLanes = 8 / sizeof(T);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const size_t at = i * sizeof(T);
    if (Load<uint64_t>(base.data() + at) == Load<uint64_t>(result.data() + at)) continue;
    for (size_t lane = 0; lane < kLanes; ++lane) look(i + lane);
  }
  for (; i < count; ++i) look(i);
}

void WriteGaps(const std::vector<uint32_t>& at, std::vector<std::byte>& out) {
  out.clear();
  uint32_t next = 0;
  for (uint32_t position : at) {
    uint32_t gap = position - next;
    next = position + 1;
    for (; gap >= 0x80; gap >>= 7) out.push_back(static_cast<std::byte>(gap | 0x80));
    out.push_back(static_cast<std::byte>(gap));
  }
}

void WritePlane(const std::vector<uint64_t>& values, size_t plane, std::vector<std::byte>& out) {
  out.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    out[i] = static_cast<std::byte>(values[i] >> (8 * plane));
}

}  // namespace

bool CanEncode(Dtype dtype) {
  const int64_t bytes = ElementBytes(dtype);
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

void BlockEncoder::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void BlockDecoder::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

BlockEncoder::BlockEncoder() : context_(ZSTD_createCCtx()) { NXDKIT_CHECK(context_ != nullptr); }
BlockDecoder::BlockDecoder() : context_(ZSTD_createDCtx()) { NXDKIT_CHECK(context_ != nullptr); }

// A section is stored compressed only where that makes it smaller.
Status BlockEncoder::Append(std::span<const std::byte> section, size_t size_at,
                            std::vector<std::byte>& block) {
  packed_.resize(ZSTD_compressBound(section.size()));
  const size_t packed = ZSTD_compressCCtx(context_.get(), packed_.data(), packed_.size(),
                                          section.data(), section.size(), kLevel);
  if (ZSTD_isError(packed)) return OverLimit("zstd: {}", ZSTD_getErrorName(packed));
  const std::span<const std::byte> bytes =
      packed < section.size() ? std::span<const std::byte>(packed_).first(packed) : section;
  block.insert(block.end(), bytes.begin(), bytes.end());
  PutWord(block, size_at, bytes.size());
  return OkStatus();
}

Result<uint64_t> BlockEncoder::Encode(Dtype dtype, Coding coding, std::span<const std::byte> base,
                                      std::span<const std::byte> result,
                                      std::vector<std::byte>& block) {
  NXDKIT_CHECK(CanEncode(dtype) && base.size() == result.size() && base.size() <= kBlockBytes);
  WithWidth(dtype, [&](auto zero) {
    Find<decltype(zero)>(base, result, coding, Info(dtype).floating, changes_);
  });
  block.clear();
  if (changes_.at.empty()) return uint64_t{0};
  const size_t planes = static_cast<size_t>(ElementBytes(dtype));
  block.resize(HeadBytes(planes));
  WriteGaps(changes_.at, section_);
  PutWord(block, 0, changes_.at.size());
  PutWord(block, kWord, section_.size());
  NXDKIT_TRY(Append(section_, 2 * kWord, block));
  for (size_t plane = 0; plane < planes; ++plane) {
    WritePlane(changes_.values, plane, section_);
    NXDKIT_TRY(Append(section_, (3 + plane) * kWord, block));
  }
  return uint64_t{changes_.at.size()};
}

// Unpacks `bytes` bytes to section_.
Status BlockDecoder::Unpack(std::span<const std::byte> packed, uint64_t at, uint64_t bytes) {
  section_.resize(bytes);
  if (packed.size() == bytes) {
    std::copy(packed.begin(), packed.end(), section_.begin());
    return OkStatus();
  }
  const size_t size = ZSTD_decompressDCtx(context_.get(), section_.data(), section_.size(),
                                          packed.data(), packed.size());
  if (ZSTD_isError(size))
    return Corrupt("the section of {} bytes does not decompress: {}", packed.size(),
                   ZSTD_getErrorName(size))
        .at(at);
  if (size != bytes)
    return Corrupt("the section decompresses to {} bytes, expected {}", size, bytes).at(at);
  return OkStatus();
}

Status BlockDecoder::ReadGaps(uint64_t elements, uint64_t at, Changes& changes) const {
  size_t read = 0;
  uint64_t next = 0;
  for (uint32_t& position : changes.at) {
    uint64_t gap = 0;
    for (size_t i = 0;; ++i) {
      if (read == section_.size()) return Corrupt("the gaps end within a number").at(at);
      const auto byte = static_cast<uint64_t>(section_[read++]);
      gap |= (byte & 0x7f) << (7 * i);
      if (i > 0 && byte == 0)
        return Corrupt("a gap is written with more bytes than it needs").at(at);
      if (byte < 0x80) break;
      if (i + 1 == kMaxVarint) return Corrupt("a gap is of more than 3 bytes").at(at);
    }
    if (gap >= elements - next)
      return Corrupt("a change at element {}, but the block has {}", next + gap, elements).at(at);
    position = static_cast<uint32_t>(next + gap);
    next += gap + 1;
  }
  if (read == section_.size()) return OkStatus();
  return Corrupt("{} bytes are left after the last gap", section_.size() - read).at(at);
}

Status BlockDecoder::Decode(Dtype dtype, uint64_t elements, std::span<const std::byte> block,
                            Changes& changes) {
  NXDKIT_CHECK(CanEncode(dtype) && elements <= kBlockBytes);
  const size_t planes = static_cast<size_t>(ElementBytes(dtype));
  const size_t head = HeadBytes(planes);
  if (block.size() < head)
    return Corrupt("{} bytes, expected {} at least", block.size(), head).at(0);
  const uint64_t count = GetWord(block, 0);
  const uint64_t gap_bytes = GetWord(block, kWord);
  if (count == 0 || count > elements)
    return Corrupt("{} changes, expected 1 to {}", count, elements).at(0);
  if (gap_bytes < count || gap_bytes > count * kMaxVarint)
    return Corrupt("{} bytes of gaps for {} changes", gap_bytes, count).at(kWord);
  changes.at.resize(count);
  changes.values.assign(count, 0);
  uint64_t at = head;
  for (size_t s = 0; s <= planes; ++s) {
    const size_t size_at = (2 + s) * kWord;
    const uint64_t packed = GetWord(block, size_at);
    const uint64_t bytes = s == 0 ? gap_bytes : count;
    if (packed == 0 || packed > bytes || packed > block.size() - at)
      return Corrupt("a section of {} bytes, expected 1 to {}, {} are left", packed, bytes,
                     block.size() - at)
          .at(size_at);
    NXDKIT_TRY(Unpack(block.subspan(at, packed), at, bytes));
    if (s == 0) {
      NXDKIT_TRY(ReadGaps(elements, at, changes));
    } else {
      for (size_t i = 0; i < count; ++i)
        changes.values[i] |= static_cast<uint64_t>(section_[i]) << (8 * (s - 1));
    }
    at += packed;
  }
  if (at == block.size()) return OkStatus();
  return Corrupt("{} bytes are left after the last section", block.size() - at).at(at);
}

void Apply(const Changes& changes, Dtype dtype, Coding coding, uint64_t first,
           std::span<std::byte> elements) {
  WithWidth(dtype, [&](auto zero) {
    using T = decltype(zero);
    const uint64_t end = first + elements.size() / sizeof(T);
    const bool floating = Info(dtype).floating;
    auto it = std::lower_bound(changes.at.begin(), changes.at.end(), first);
    for (; it != changes.at.end() && *it < end; ++it) {
      std::byte* const element = elements.data() + (*it - first) * sizeof(T);
      T value = static_cast<T>(changes.values[static_cast<size_t>(it - changes.at.begin())]);
      if (coding == Coding::kUlp) value = Move(Load<T>(element), value, floating);
      std::memcpy(element, &value, sizeof value);
    }
  });
}

}  // namespace nxdkit::delta
