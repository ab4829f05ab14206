#include "formats/tar/stream_sum.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/base/errors.h"
#include "lib/hash/crc32.h"

namespace nxdkit::tar {
namespace {

constexpr std::string_view kRecordMagic = "nxdkit tar checksum\n";

// One past the last byte that is not zero; 0 when there is none.
size_t AfterData(std::span<const std::byte> bytes) {
  size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  return size;
}

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void StreamSum::Add(std::span<const std::byte> bytes) {
  crc_ = Crc32(crc_, bytes);
  bytes_ += bytes.size();
}

std::array<std::byte, kRecordBytes> StreamSum::Record() const {
  const std::string text = fmt::format("{}crc32 {:08x}\nbytes {}\n", kRecordMagic, crc_, bytes_);
  std::array<std::byte, kRecordBytes> record{};
  std::memcpy(record.data(), text.data(), text.size());
  return record;
}

void StreamCheck::Sum(std::span<const std::byte> bytes) {
  if (const size_t after = AfterData(bytes); after > 0) after_data_ = sum_.bytes() + after;
  sum_.Add(bytes);
}

void StreamCheck::Add(std::span<const std::byte> bytes) {
  const size_t kept = std::min(bytes.size(), kRecordBytes);
  const size_t gone = held_ + kept > kRecordBytes ? held_ + kept - kRecordBytes : 0;
  Sum(std::span(last_).first(gone));
  std::memmove(last_.data(), last_.data() + gone, held_ - gone);
  held_ -= gone;
  Sum(bytes.first(bytes.size() - kept));
  const auto tail = bytes.last(kept);
  std::copy(tail.begin(), tail.end(), last_.begin() + static_cast<std::ptrdiff_t>(held_));
  held_ += kept;
}

Result<bool> StreamCheck::Finish(uint64_t end) const {
  const auto last = std::span(last_).first(held_);
  const bool has_record = TextOf(last).starts_with(kRecordMagic);
  const uint64_t after =
      has_record || AfterData(last) == 0 ? after_data_ : sum_.bytes() + AfterData(last);
  if (after > end)
    return Corrupt("{} bytes after the end of the archive are not zeros", after - end).at(end);
  if (!has_record) return false;
  const auto expected = sum_.Record();
  if (std::ranges::equal(last, expected)) return true;
  const std::string_view found = TextOf(last).substr(kRecordMagic.size());
  const std::string_view wanted = TextOf(expected).substr(kRecordMagic.size());
  // Two lines of a few characters; if damaged, no more than that is shown.
  const auto shown = [](std::string_view text) {
    std::string line(text.substr(0, std::min<size_t>(text.find('\0'), 40)));
    std::ranges::replace_if(
        line, [](char c) { return c < ' ' || c > '~'; }, ' ');
    while (line.ends_with(' ')) line.pop_back();
    return line;
  };
  return Corrupt("the archive is damaged: its bytes have {}, the record at its end says {}",
                 shown(wanted), shown(found))
      .at(sum_.bytes());
}

}  // namespace nxdkit::tar
