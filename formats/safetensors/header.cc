#include "formats/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "formats/safetensors/fault.h"
#include "formats/safetensors/header_handler.h"
#include "formats/safetensors/limits.h"
#include "lib/json_stream.h"

namespace nxdkit::safetensors {
namespace {

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
  const auto twin = std::ranges::adjacent_find(items, [&](const Item& a, const Item& b) {
    return a.hash == b.hash && name(a) == name(b);
  });
  if (twin == items.end()) return OkStatus();
  const EntryPlace& first = header.places[twin[0].index];
  return Refuse(Fault::kInvalidHeaderDeserialization,
                fmt::format("a second tensor of this name; the first is at offset {}",
                            first.offset),
                fault)
      .on(name(twin[1]))
      .at(header.places[twin[1].index].offset);
}

// Of two entries with one key the last one counts, as in the reference.
void SortMetadata(std::vector<std::pair<std::string, std::string>>& metadata) {
  const auto key = [](const auto& entry) -> const std::string& { return entry.first; };
  std::ranges::reverse(metadata);
  std::ranges::stable_sort(metadata, {}, key);
  const auto rest = std::ranges::unique(metadata, {}, key);
  metadata.erase(rest.begin(), rest.end());
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
