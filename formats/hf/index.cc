#include "formats/hf/index.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "lib/base/errors.h"
#include "lib/json/json_stream.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"

namespace nxdkit::hf {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a path component on Linux

// "%2e" -> "."; nullopt when there is nothing to decode.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    decoded += escape ? static_cast<char>(value) : text[i];
    if (escape) i += 2;
  }
  if (decoded.size() == text.size()) return std::nullopt;
  return decoded;
}

std::string_view ComponentFault(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty()) return "it is empty";
  if (name == "." || name == "..") return "it names a folder";
  if (name.find('/') != name.npos) return "it has a /";
  if (name.find('\\') != name.npos) return "it has a backslash";
  if (name.size() > 1 && name[1] == ':' && std::isalpha(static_cast<unsigned char>(name[0])))
    return "it starts with a drive letter";
  if (std::ranges::any_of(name, is_control)) return "it has a control character";
  return "";
}

// Reads the weight_map of the root object and skips the rest: metadata may hold any value.
class IndexHandler : public JsonHandler {
 public:
  IndexHandler(std::string_view extension, Index* index) : extension_(extension), index_(*index) {}

  bool weight_map_seen() const { return weight_map_seen_; }

  Status Key(std::string_view key) override {
    if (depth_ == 1) return RootKey(key);
    if (in_map_) index_.entries.emplace_back().tensor = key;
    return OkStatus();
  }

  Status String(std::string_view value) override {
    if (!in_map_ || depth_ != 2) return Scalar(JsonKind::kString);
    Index::Entry& entry = index_.entries.back();
    const auto known = files_.find(value);
    if (known != files_.end()) {
      entry.file = known->second;
      return OkStatus();
    }
    if (const std::string fault = ShardFileNameFault(value, extension_); !fault.empty())
      return Corrupt("file name \"{}\" is refused: {}", value.substr(0, kMaxShown), fault)
          .on(entry.tensor);
    if (files_.size() == kMaxShards)
      return OverLimit("the index names more than {} files", kMaxShards);
    entry.file = static_cast<uint32_t>(files_.size());
    index_.files.emplace_back(value);
    files_.emplace(value, entry.file);
    return OkStatus();
  }

  Status Unsigned(uint64_t) override { return Scalar(JsonKind::kUnsigned); }

  Status Scalar(JsonKind kind) override {
    if (depth_ == 0) return Corrupt("the index is {} instead of an object", JsonKindName(kind));
    if (in_map_) return Wrong(kind);
    return OkStatus();
  }

  Status Begin(JsonKind kind, uint64_t) override {
    const bool wrong_root = depth_ == 0 && kind != JsonKind::kObject;
    if (wrong_root) return Scalar(kind);
    ++depth_;
    if (!in_map_) return OkStatus();
    if (depth_ != 2 || kind != JsonKind::kObject) return Wrong(kind);
    return OkStatus();
  }

  Status End(JsonKind) override {
    if (--depth_ == 1) in_map_ = false;
    return OkStatus();
  }

 private:
  static constexpr size_t kMaxShown = 300;

  Status RootKey(std::string_view key) {
    if (key != "weight_map") return OkStatus();
    in_map_ = true;
    if (!std::exchange(weight_map_seen_, true)) return OkStatus();
    return Corrupt("weight_map is there twice").member(key);
  }

  // The error for `kind` where the map or one of its file names was expected.
  Status Wrong(JsonKind kind) const {
    Error error(Errc::kCorrupt, fmt::format("found {}, but weight_map is an object of file names",
                                            JsonKindName(kind)));
    error = std::move(error).member("weight_map");
    if (index_.entries.empty()) return error;
    return std::move(error).on(index_.entries.back().tensor);
  }

  std::string_view extension_;
  Index& index_;
  std::map<std::string, uint32_t, std::less<>> files_;
  int depth_ = 0;
  bool in_map_ = false;
  bool weight_map_seen_ = false;
};

void SortFiles(Index& index) {
  std::vector<uint32_t> order(index.files.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::string_view(index.files[i]); });
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (Index::Entry& entry : index.entries) entry.file = place[entry.file];
  std::ranges::sort(index.files);
}

}  // namespace

Result<Index> ReadIndex(const std::string& path, std::string_view extension) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (file.bytes() > kMaxIndexBytes)
    return OverLimit("index of {} bytes, the limit is {}", file.bytes(), kMaxIndexBytes).in(path);
  Index index;
  index.path = path;
  IndexHandler handler(extension, &index);
  Status read = ReadJsonStream(file, 0, file.bytes(), handler);
  if (!read.ok()) return OrWrongAnswer(std::move(read).error().in(path), path);
  if (!handler.weight_map_seen()) return Corrupt("the index has no weight_map").in(path);

  SortFiles(index);
  std::ranges::sort(index.entries, {}, &Index::Entry::tensor);
  const auto twin = std::ranges::adjacent_find(index.entries, {}, &Index::Entry::tensor);
  if (twin == index.entries.end()) return index;
  return Corrupt("the index names it twice, in {} and in {}", index.files[twin[0].file],
                 index.files[twin[1].file])
      .in(path)
      .on(twin->tensor);
}

const Index::Entry* Find(const Index& index, std::string_view tensor) {
  const auto found = std::ranges::lower_bound(
      index.entries, tensor, {},
      [](const Index::Entry& entry) { return std::string_view(entry.tensor); });
  if (found == index.entries.end() || found->tensor != tensor) return nullptr;
  return &*found;
}

std::string ShardFileNameFault(std::string_view name, std::string_view extension) {
  if (name.size() > kMaxNameBytes) return fmt::format("it has {} bytes", name.size());
  // Terminates, because each round makes the text shorter.
  for (std::optional<std::string> text(name); text; text = PercentDecoded(*text))
    if (const std::string_view fault = ComponentFault(*text); !fault.empty())
      return *text == name ? std::string(fault)
                           : fmt::format("{} once percent-encoding is undone", fault);
  if (name.size() <= extension.size() || !name.ends_with(extension))
    return fmt::format("it does not end in {}", extension);
  return "";
}

}  // namespace nxdkit::hf
