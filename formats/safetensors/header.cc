#include "formats/safetensors/header.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "formats/safetensors/header_json.h"
#include "formats/safetensors/limits.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/utf8.h"

namespace nxdkit::safetensors {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr size_t kMaxShownDims = 8;

// Length of the incomplete character at the end of `text`; 0 when there is none.
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

Status CheckUtf8(const File& file, uint64_t bytes) {
  std::vector<char> block(std::min<uint64_t>(bytes, kBlockBytes));
  size_t carried = 0;  // bytes of a character that the block boundary cut in two
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
      return Corrupt("InvalidHeader: byte 0x{:02x} makes the header invalid as UTF-8",
                     static_cast<unsigned char>(text[*bad]))
          .at(begin + *bad);
    std::copy(text.end() - static_cast<ptrdiff_t>(tail), text.end(), block.begin());
    carried = tail;
  }
  return OkStatus();
}

// Rejects two tensors of one name: the reference lets the last one win and never checks the others.
// Sorts hashes, not names: 1.5 million tensors take 24 MB and a tenth of a second.
Status CheckUniqueNames(const Header& header) {
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
  return Corrupt(
             "InvalidHeaderDeserialization: a second tensor of this name; the first is at offset "
             "{}",
             first.offset)
      .on(name(twin[1]))
      .at(header.places[twin[1].index].offset);
}

// When two entries have one key, the last one counts, as in the reference.
void SortMetadata(std::vector<std::pair<std::string, std::string>>& metadata) {
  std::reverse(metadata.begin(), metadata.end());
  std::stable_sort(metadata.begin(), metadata.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto rest = std::unique(metadata.begin(), metadata.end(),
                                [](const auto& a, const auto& b) { return a.first == b.first; });
  metadata.erase(rest, metadata.end());
}

uint64_t Dim(int64_t stored) { return static_cast<uint64_t>(stored); }

std::string DimsText(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMaxShownDims; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", Dim(shape[i]));
  if (shape.size() > kMaxShownDims) text += fmt::format(", ... {} dims", shape.size());
  return text + "]";
}

// Brings the entries into file order; they are in it already unless the file is odd.
void SortByOffsets(Header& header) {
  const size_t count = header.tensors.size();
  const auto key = [&](size_t i) {
    return std::tuple(header.tensors[i].offset, header.places[i].end);
  };
  bool sorted = true;
  for (size_t i = 1; i < count && sorted; ++i) sorted = key(i - 1) <= key(i);
  if (sorted) return;

  std::vector<uint32_t> order(count);  // order[i]: which entry comes to place i
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, key);
  for (uint32_t start = 0; start < count; ++start) {
    for (uint32_t to = start; order[to] != to;) {  // along the cycle of `start`, once
      const uint32_t from = std::exchange(order[to], to);
      if (from == start) break;
      std::swap(header.tensors[to], header.tensors[from]);
      std::swap(header.places[to], header.places[from]);
      to = from;
    }
  }
}

// Product of the dims from the left, starting from 1; nullopt when it passes 2^64-1. [0, max, max]
// has a product, [max, max, 0] has none: as in the reference.
std::optional<uint64_t> Product(const Shape& shape) {
  std::optional<uint64_t> product = 1;
  for (const int64_t dim : shape) {
    product = CheckedMul(*product, Dim(dim));
    if (!product) break;
  }
  return product;
}

// `expected` is where the previous entry ended.
Status CheckEntry(const StoredTensor& tensor, uint64_t end, uint64_t expected) {
  const uint64_t begin = tensor.offset;
  if (begin != expected)
    return Corrupt("InvalidOffset: data_offsets [{}, {}] where the data before ends at {}", begin,
                   end, expected);
  if (end < begin)
    return Corrupt("InvalidOffset: data_offsets [{}, {}] end before they begin", begin, end);
  const std::optional<uint64_t> elements = Product(tensor.shape);
  if (!elements)
    return Corrupt("ValidationOverflow: shape {} has more than 2^64-1 elements",
                   DimsText(tensor.shape));
  const std::optional<uint64_t> bits =
      CheckedMul(*elements, static_cast<uint64_t>(Info(tensor.dtype).bits));
  if (!bits)
    return Corrupt("ValidationOverflow: {} elements of {} have more than 2^64-1 bits", *elements,
                   Name(tensor.dtype));
  if (*bits % 8 != 0)
    return Corrupt("MisalignedSlice: {} elements of {} are {} bits, not whole bytes", *elements,
                   Name(tensor.dtype), *bits);
  if (end - begin != *bits / 8)
    return Corrupt("TensorInvalidInfo: data_offsets [{}, {}] hold {} bytes, {} {} needs {}", begin,
                   end, end - begin, Name(tensor.dtype), DimsText(tensor.shape), *bits / 8);
  return OkStatus();
}

}  // namespace

Result<Header> ParseHeader(const File& file, uint64_t bytes) {
  NXDKIT_TRY(CheckUtf8(file, bytes));
  NXDKIT_ASSIGN(Header header, ReadHeaderJson(file, bytes));
  NXDKIT_TRY(CheckUniqueNames(header));
  SortMetadata(header.metadata);
  return header;
}

Status ValidateLayout(Header& header, uint64_t data_begin, uint64_t file_bytes) {
  SortByOffsets(header);
  uint64_t end = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const EntryPlace& place = header.places[i];
    NXDKIT_TRY(
        CheckEntry(header.tensors[i], place.end, end).on(header.tensors[i].name).at(place.offset));
    end = place.end;
  }
  if (end != file_bytes - data_begin)
    return Corrupt(
               "MetadataIncompleteBuffer: the tensors take {} bytes, the file has {} bytes of data",
               end, file_bytes - data_begin)
        .at(data_begin)
        .hint(end > file_bytes - data_begin ? "the file is cut off: copy or download it again"
                                            : "");

  for (size_t i = 0; i < header.tensors.size(); ++i) {
    StoredTensor& tensor = header.tensors[i];
    if (!ElementCount(tensor.shape))
      return Unsupported("empty tensor of shape {}, dims over 2^63-1 are not supported",
                         DimsText(tensor.shape))
          .on(tensor.name)
          .at(header.places[i].offset);
    tensor.strides = RowMajorStrides(tensor.shape);
  }
  return OkStatus();
}

}  // namespace nxdkit::safetensors
