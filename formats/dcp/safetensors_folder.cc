#include "formats/dcp/safetensors_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/safetensors/safetensors.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json_parse.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr std::string_view kShardEnd = ".safetensors";
constexpr std::string_view kShardingInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kShardVersion = "DCP_VERSION";
constexpr size_t kMaxInfoBytes = 16 << 20;
constexpr int kInfoDepth = 3;  // {name: {"saved_offsets": [...]}}

using Offsets = std::unordered_map<std::string, Shape>;  // by tensor

const std::string* MetadataOf(const TensorFile& file, std::string_view key) {
  for (const auto& [name, value] : file.metadata)
    if (name == key) return &value;
  return nullptr;
}

Result<Offsets> ParseInfo(const std::string& text) {
  if (text.size() > kMaxInfoBytes)
    return Unsupported("{} has {} bytes, the limit is {}", kShardingInfo, text.size(),
                       kMaxInfoBytes);
  NXDKIT_ASSIGN(const Json info, ParseJson(text, {.max_depth = kInfoDepth}));
  if (!info.is_object()) return Corrupt("{} is not an object", kShardingInfo);
  Offsets out;
  for (const auto& [name, value] : info.items()) {
    const auto offsets = value.is_object() ? value.find("saved_offsets") : value.end();
    if (!value.is_object() || offsets == value.end() || !offsets->is_array())
      return Corrupt("{} has no saved_offsets", kShardingInfo).on(name);
    Shape numbers;
    for (const Json& number : *offsets) {
      if (!number.is_number_unsigned() || !CheckedCast<int64_t>(number.get<uint64_t>()).has_value())
        return Corrupt("saved_offsets are not numbers from 0 on").on(name);
      numbers.push_back(number.get<int64_t>());
    }
    out.emplace(name, std::move(numbers));
  }
  return out;
}

// "-of-00002" at the end of the name: files of one save agree on it.
std::string_view CountInName(std::string_view name) {
  name.remove_suffix(kShardEnd.size());
  const size_t at = name.rfind("-of-");
  return at == std::string_view::npos ? "" : name.substr(at);
}

class ShardOpener {
 public:
  ShardOpener(const std::string& path, const Looker& look) : look_(look) {
    out_.path = path;
    out_.form = FolderForm::kSafetensors;
  }

  Result<Folder> Run() {
    NXDKIT_ASSIGN(const std::vector<std::string> all, look_.ListFolder(out_.path));
    std::set<std::string> names;
    for (const std::string& name : all)
      if (name.ends_with(kShardEnd)) names.insert(name);
    for (const std::string& name : names)
      if (CountInName(name) != CountInName(*names.begin()))
        return Corrupt("{} and {} are of different saves", EscapeControl(*names.begin()),
                       EscapeControl(name))
            .in(out_.path)
            .hint("torch reads every safetensors file of the folder; move away the older ones");
    NXDKIT_ASSIGN(files_, FolderFiles::Open(out_.path, names, out_.path));
    for (TensorFile& file : files_.files) NXDKIT_TRY(ReadFile(file).in(file.path));
    for (StoredEntry& entry : out_.tensors) NXDKIT_TRY(Finish(entry).in(out_.path).on(entry.key));
    out_.files = std::move(files_.files);
    return std::move(out_);
  }

 private:
  Status ReadFile(TensorFile& file) {
    const auto number = static_cast<uint32_t>(&file - files_.files.data());
    NXDKIT_ASSIGN(TensorFile opened, safetensors::Open(file.path));
    const std::string* info = MetadataOf(opened, kShardingInfo);
    if (!info)
      return Corrupt("the file has no {}: it is not part of this checkpoint", kShardingInfo)
          .hint(
              "torch reads every safetensors file of the folder; move away those that are not part "
              "of it");
    if (const std::string* version = MetadataOf(opened, kShardVersion);
        version && *version != "1.0")
      return Unsupported("{} is \"{}\", expected 1.0", kShardVersion,
                         EscapeControl(version->substr(0, 40)));
    NXDKIT_ASSIGN(Offsets offsets, ParseInfo(*info).member(kShardingInfo));
    for (const StoredTensor& tensor : opened.tensors) {
      const auto found = offsets.find(tensor.name);
      if (found == offsets.end())
        return Corrupt("{} does not have the tensor", kShardingInfo).on(tensor.name);
      NXDKIT_TRY(AddChunk(number, tensor, std::move(found->second)).on(tensor.name));
      offsets.erase(found);
    }
    if (offsets.empty()) return OkStatus();
    return Corrupt("{} names a tensor that the file does not have", kShardingInfo)
        .on(offsets.begin()->first);
  }

  Status AddChunk(uint32_t number, const StoredTensor& tensor, Shape lo) {
    if (lo.size() != tensor.shape.size())
      return Corrupt("{} offsets of a tensor of {} dimensions", lo.size(), tensor.shape.size());
    if (ElementBytes(tensor.dtype) == 0)
      return Unsupported("elements of {} are smaller than a byte", Name(tensor.dtype));
    const auto [index, added] = numbers_.emplace(tensor.name, out_.tensors.size());
    if (added) out_.tensors.push_back({tensor.name, tensor.dtype, Shape(lo.size(), 0), {}});
    StoredEntry& entry = out_.tensors[index->second];
    if (entry.dtype != tensor.dtype || entry.shape.size() != lo.size())
      return Corrupt("{} of {} dimensions, in an earlier file {} of {}", Name(tensor.dtype),
                     lo.size(), Name(entry.dtype), entry.shape.size());
    for (size_t d = 0; d < lo.size(); ++d) {
      const auto end = CheckedAdd(lo[d], tensor.shape[d]);
      if (!end) return Corrupt("the chunk ends at more than 2^63");
      entry.shape[d] = std::max(entry.shape[d], *end);
    }
    const Box box{std::move(lo), tensor.shape};
    if (box.Volume() == 0) return OkStatus();
    StoredTensor kept = files_.Kept(tensor);
    files_.files[number].tensors.push_back(kept);
    entry.chunks.push_back({box, number, std::move(kept)});
    return OkStatus();
  }

  // A chunk that overlaps another is from another save. The same box twice is a copy, as in other
  // forms; readers compare the two. The shape of a whole tensor is that of its chunks together.
  Status Finish(const StoredEntry& entry) const {
    NXDKIT_TRY(PackedBytes(entry.dtype, entry.shape));
    std::vector<Box> boxes;
    std::vector<const StoredChunk*> chunks;  // the first of each set of copies
    std::set<std::pair<Shape, Shape>> met;
    for (const StoredChunk& chunk : entry.chunks) {
      if (!met.insert({chunk.box.lo, chunk.box.extent}).second) continue;
      boxes.push_back(chunk.box);
      chunks.push_back(&chunk);
    }
    NXDKIT_ASSIGN(const auto pair, FindOverlap(boxes));
    if (pair) {
      const StoredChunk& a = *chunks[pair->second];
      const StoredChunk& b = *chunks[pair->first];
      return Corrupt("the chunk {} in {} and the chunk {} in {} overlap", BoxText(a.box),
                     BaseName(files_.files[a.file].path), BoxText(b.box),
                     BaseName(files_.files[b.file].path))
          .hint("one of the files is of an older save; torch silently mixes them");
    }
    return CheckCover(std::move(boxes), entry.shape);
  }

  Looker look_;
  Folder out_;
  FolderFiles files_;
  std::unordered_map<std::string, size_t> numbers_;  // of entries, by name
};

}  // namespace

Result<bool> HasShards(const std::string& path, const std::vector<std::string>& names) {
  const auto name = std::ranges::find_if(
      names, [](const std::string& each) { return each.ends_with(kShardEnd); });
  if (name == names.end()) return false;
  const auto file = safetensors::Open(JoinPath(path, *name));
  if (file.ok()) return MetadataOf(*file, kShardingInfo) != nullptr;
  const Errc code = file.error().code();
  if (code == Errc::kIo || code == Errc::kNotFound) return file.error();
  return false;
}

std::string ShardFileName(int rank) {
  return fmt::format("shard-{:05}-model-00001-of-00001.safetensors", rank + 1);
}

std::map<std::string, std::string> ShardMetadata(
    const std::vector<std::pair<std::string, Shape>>& begins) {
  Json info = Json::object();
  for (const auto& [name, lo] : begins) info.push_back({name, {{"saved_offsets", lo}}});
  return {{std::string(kShardingInfo), info.dump()},
          {std::string(kShardVersion), "1.0"},
          {"format", "pt"}};
}

Result<Folder> OpenShards(const std::string& path, const Looker& look) {
  return ShardOpener(path, look).Run();
}

}  // namespace nxdkit::dcp
