#include "formats/safetensors/header.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "formats/safetensors/fault.h"
#include "formats/safetensors/header_handler.h"
#include "formats/safetensors/limits.h"
#include "lib/base/utf8.h"
#include "lib/json/json_stream.h"

namespace nxdkit::safetensors {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;

// Length of the character that the last bytes of `text` begin but do not end; 0 when there is none.
size_t OpenTail(std::string_view text) {
  for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const size_t wanted = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return wanted > length ? length : 0;
  }
  return 0;
}

Status CheckUtf8(const File& file, uint64_t bytes, Fault* fault) {
  std::vector<char> block(std::min<uint64_t>(bytes, kBlockBytes));
  size_t carried = 0;  // bytes of a character that the block before cut in two
  for (uint64_t done = 0; done < bytes;) {
    const auto fresh =
        static_cast<size_t>(std::min<uint64_t>(block.size() - carried, bytes - done));
    NXDKIT_TRY(file.ReadAt(kLengthBytes + done,
                           std::as_writable_bytes(std::span(block).subspan(carried, fresh))));
    const std::string_view text(block.data(), carried + fresh);
    const uint64_t begin = kLengthBytes + done - carried;
    done += fresh;
    const size_t tail = done < bytes ? OpenTail(text) : 0;
    if (const auto bad = ValidateUtf8(text.substr(0, text.size() - tail)))
      return Refuse(Fault::kInvalidHeader,
                    fmt::format("byte 0x{:02x} makes the header invalid as UTF-8",
                                static_cast<unsigned char>(text[*bad])),
                    fault)
          .at(begin + *bad);
    std::copy(text.end() - static_cast<ptrdiff_t>(tail), text.end(), block.begin());
    carried = tail;
  }
  return OkStatus();
}

// Two tensors of one name: the reference lets the last one win, and never checks the others.
// Sorts hashes, not names: 1.5 million tensors take 24 MB and a tenth of a second.
Status CheckUniqueNames(const Header& header, Fault* fault) {
  struct Item {
    size_t hash;
    uint32_t index;
  };
  const auto name = [&](const Item& item) -> const std::string& {
    return header.tensors[item.index].name;
  };
  std::vector<Item> items;
  items.reserve(header.tensors.size());
  for (const StoredTensor& tensor : header.tensors)
    items.push_back({std::hash<std::string>()(tensor.name), static_cast<uint32_t>(items.size())});
  std::ranges::sort(items, [&](const Item& a, const Item& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    const int order = name(a).compare(name(b));
    return order != 0 ? order < 0 : a.index < b.index;
  });
  const auto twin = std::ranges::adjacent_find(
      items, [&](const Item& a, const Item& b) { return a.hash == b.hash && name(a) == name(b); });
  if (twin == items.end()) return OkStatus();
  const EntryPlace& first = header.places[twin[0].index];
  return Refuse(
             Fault::kInvalidHeaderDeserialization,
             fmt::format("a second tensor of this name; the first is at offset {}", first.offset),
             fault)
      .on(name(twin[1]))
      .at(header.places[twin[1].index].offset);
}

// Of two entries with one key the last one counts, as in the reference.
void SortMetadata(std::vector<std::pair<std::string, std::string>>& metadata) {
  std::reverse(metadata.begin(), metadata.end());
  std::stable_sort(metadata.begin(), metadata.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto rest = std::unique(metadata.begin(), metadata.end(),
                                [](const auto& a, const auto& b) { return a.first == b.first; });
  metadata.erase(rest, metadata.end());
}

}  // namespace

Result<Header> ParseHeader(const File& file, uint64_t bytes, Fault* fault) {
  NXDKIT_TRY(CheckUtf8(file, bytes, fault));
  Header header;
  HeaderHandler handler(&header);
  Status parsed = ReadJsonStream(file, kLengthBytes, bytes, handler);
  if (!parsed.ok())
    return Refuse(Fault::kInvalidHeaderDeserialization, std::move(parsed).error(), fault);
  NXDKIT_TRY(CheckUniqueNames(header, fault));
  SortMetadata(header.metadata);
  return header;
}

}  // namespace nxdkit::safetensors
