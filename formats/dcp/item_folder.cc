#include "formats/dcp/item_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/zstd_item.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr uint64_t kMaxObjectBytes = 64 << 20;
// The most bytes that an archive has in addition to its tensor; torch's have some 1.5 kB.
constexpr uint64_t kMaxArchiveFrame = 1 << 20;
// Compressed tensors are unpacked into a temporary file, and a small folder must not fill a disk.
// zstd compresses weights to less than half, a training state with many zeros to about a tenth, so
// a real checkpoint stays far below a ratio of 64. Zeros alone compress up to 32,000 times, and a
// small checkpoint may be little else.
constexpr uint64_t kMaxRatio = 64;
constexpr uint64_t kMaxSmallRatio = 4096;
constexpr uint64_t kSmallUnpacked = uint64_t{1} << 30;

// An item and its key.
struct Item {
  const ItemPlace* place;
  const std::string* key;
  uint64_t max_bytes;  // of the archive, unpacked
  bool is_object = false;
};

uint64_t MaxUnpacked(uint64_t packed) {
  const uint64_t small =
      std::min(CheckedMul(packed, kMaxSmallRatio).value_or(kSmallUnpacked), kSmallUnpacked);
  return std::max(CheckedMul(packed, kMaxRatio).value_or(UINT64_MAX), small);
}

class ItemOpener {
 public:
  // `said_by` is the file that the metadata was read from.
  ItemOpener(std::string path, FolderForm form, Metadata metadata, std::string said_by)
      : said_by_(std::move(said_by)) {
    out_.path = std::move(path);
    out_.form = form;
    out_.metadata = std::move(metadata);
  }

  Result<Folder> Run() {
    std::set<std::string> names;
    for (const Item& item : Items()) names.insert(item.place->file);
    NXDKIT_ASSIGN(files_, FolderFiles::Open(out_.path, names, said_by_));
    NXDKIT_TRY(ListArchives());
    NXDKIT_TRY(DecompressAll());
    for (const TensorEntry& entry : out_.metadata.tensors)
      NXDKIT_TRY(ReadEntry(entry).on(entry.key));
    out_.files = std::move(files_.files);
    return std::move(out_);
  }

 private:
  std::vector<Item> Items() const {
    std::vector<Item> items;
    for (const TensorEntry& entry : out_.metadata.tensors)
      for (const Chunk& chunk : entry.chunks)
        items.push_back({&chunk.place, &entry.key,
                         kMaxArchiveFrame + static_cast<uint64_t>(chunk.box.Volume()) *
                                                static_cast<uint64_t>(ElementBytes(entry.dtype))});
    for (const ObjectEntry& entry : out_.metadata.objects)
      items.push_back({&entry.place, &entry.key, kMaxObjectBytes, true});
    return items;
  }

  // Checks that every item is inside its file and does not overlap another.
  Status ListArchives() {
    std::vector<Item> items = Items();
    std::ranges::stable_sort(items, {}, [](const Item& item) {
      return std::tie(item.place->file, item.place->offset, item.place->bytes);
    });
    const ItemPlace* last = nullptr;
    for (const Item& item : items) {
      const ItemPlace* place = item.place;
      const TensorFile& file = files_.files[files_.Number(place->file)];
      const auto wrong = [&](Error error) {
        return std::move(error).in(file.path).on(*item.key).at(place->offset);
      };
      if (place->offset > file.file_bytes || place->bytes > file.file_bytes - place->offset)
        return wrong(Corrupt("the item of {} bytes is not inside the file, which has {}",
                             place->bytes, file.file_bytes));
      const bool same = last && *last == *place;
      // Tensors may share a place; objects may not: a small file could hold any number of them.
      if (same && item.is_object)
        return wrong(Corrupt("the object is in the place of another item"));
      if (last && !same && last->file == place->file && last->offset + last->bytes > place->offset)
        return wrong(Corrupt("the item begins inside another one, which ends at {}",
                             last->offset + last->bytes));
      if (!same && !place->zstd) out_.archives.push_back({file.path, place->offset, place->bytes});
      last = place;
    }
    return OkStatus();
  }

  // The compressed tensors, each place once.
  std::vector<Item> CompressedItems() const {
    std::vector<Item> items;
    std::set<std::pair<std::string_view, uint64_t>> seen;
    for (const Item& item : Items())
      if (item.place->zstd && !item.is_object &&
          seen.emplace(item.place->file, item.place->offset).second)
        items.push_back(item);
    return items;
  }

  // The limit of their unpacked size in total. The disk must have room for the size they declare
  // before a byte is written.
  static Result<uint64_t> RoomFor(const std::vector<Item>& items, const File& file) {
    uint64_t packed = 0;  // all inside the files, so it cannot overflow
    std::optional<uint64_t> tensors = 0;
    for (const Item& item : items) {
      packed += item.place->bytes;
      if (tensors) tensors = CheckedAdd(*tensors, item.max_bytes - kMaxArchiveFrame);
    }
    const uint64_t room = MaxUnpacked(packed);
    if (!tensors || *tensors > room)
      return Unsupported(
                 "the compressed tensors, of which this is the largest, have {} bytes stored and "
                 "more than the limit of {} decompressed",
                 packed, room)
          .on(*std::ranges::max_element(items, {}, &Item::max_bytes)->key)
          .hint("if the tensors are mostly zeros, save them without compression");
    NXDKIT_TRY(file.Allocate(*tensors));
    return room;
  }

  // Archives can only be read from a file; for a compressed tensor that is a temporary one.
  Status DecompressAll() {
    const std::vector<Item> items = CompressedItems();
    if (items.empty()) return OkStatus();
    NXDKIT_ASSIGN(File file, File::OpenTemporary());
    NXDKIT_ASSIGN(const uint64_t room, RoomFor(items, file).in(out_.path));
    uint64_t end = 0;
    for (const Item& item : items) {
      const ItemPlace& place = *item.place;
      NXDKIT_ASSIGN(const auto packed, files_.Get(files_.Number(place.file)));
      NXDKIT_ASSIGN(const uint64_t bytes,
                    Decompress(FileView(*packed, place.offset, place.bytes),
                               std::min(item.max_bytes, room - end), file, end)
                        .on(*item.key));
      unpacked_[{place.file, place.offset}] = {end, bytes};
      end += bytes;
      files_.CountUnpacked(bytes);
    }
    NXDKIT_TRY(file.Measure());
    temporary_ = std::make_shared<const File>(std::move(file));
    return OkStatus();
  }

  Status ReadEntry(const TensorEntry& entry) {
    StoredEntry stored{entry.key, entry.dtype, entry.shape, {}};
    stored.chunks.reserve(entry.chunks.size());
    for (const Chunk& chunk : entry.chunks) {
      const uint32_t number = files_.Number(chunk.place.file);
      NXDKIT_ASSIGN(StoredTensor tensor, ReadChunk(entry, chunk, number));
      files_.files[number].tensors.push_back(tensor);
      stored.chunks.push_back({chunk.box, number, std::move(tensor)});
    }
    out_.tensors.push_back(std::move(stored));
    return OkStatus();
  }

  Result<torch::Archive> ReadArchive(const ItemPlace& place, uint32_t number) const {
    if (!place.zstd) {
      NXDKIT_ASSIGN(const std::shared_ptr<const File> file, files_.Get(number));
      return torch::ReadArchiveAt(file, place.offset, place.bytes);
    }
    // Checksums are compared now: code that verifies files later does not find this archive in the
    // file.
    const auto [start, bytes] = unpacked_.at({place.file, place.offset});
    Result<torch::Archive> archive =
        torch::ReadArchiveAt(temporary_, start, bytes, {.check_crc = true});
    if (archive.ok()) return archive;
    const Error& error = archive.error();
    return Error(error.code(), "decompressed, " + error.message())
        .in(files_.files[number].path)
        .member(error.member())
        .at(place.offset);
  }

  Result<StoredTensor> ReadChunk(const TensorEntry& entry, const Chunk& chunk, uint32_t number) {
    const std::string& path = files_.files[number].path;
    const auto wrong = [&](Error error) {
      return std::move(error).in(path).at(chunk.place.offset);
    };
    NXDKIT_ASSIGN(const torch::Archive archive, ReadArchive(chunk.place, number));
    const torch::TensorIndex* index = archive.root.tensor();
    if (!index) return wrong(Corrupt("the item does not hold exactly one tensor"));
    StoredTensor tensor = archive.tensors.at(index->index);
    if (tensor.shape != chunk.box.extent)
      return wrong(Corrupt("the item holds a tensor of shape {}, .metadata says {}",
                           ShapeText(tensor.shape), ShapeText(chunk.box.extent)));
    if (tensor.dtype != entry.dtype)
      return wrong(Corrupt("the item holds elements of {}, .metadata says {}", Name(tensor.dtype),
                           Name(entry.dtype)));
    NXDKIT_TRY(files_.Count(tensor).in(path));
    tensor.name = entry.key;
    if (chunk.place.zstd)
      tensor.storage = DecompressedStorage(tensor.storage, path, chunk.place.offset);
    for (const std::string& warning : archive.warnings)
      AddWarning(out_, fmt::format("{}: {}: {}", path, entry.key, warning));
    return files_.Kept(std::move(tensor));
  }

  std::string said_by_;
  Folder out_;
  FolderFiles files_;
  // Where the archives of compressed tensors are in the temporary file, by the items' place.
  std::map<std::pair<std::string, uint64_t>, std::pair<uint64_t, uint64_t>> unpacked_;
  std::shared_ptr<const File> temporary_;
};

// Joins the metadata of all ranks, each of which lists only the rank's own items.
struct RankJoiner {
  std::string folder;
  Metadata out = {};
  std::unordered_map<std::string, size_t> tensors = {};  // numbers, by key

  Status Add(int64_t rank, Metadata metadata) {
    for (TensorEntry& entry : metadata.tensors) NXDKIT_TRY(AddTensor(rank, entry).on(entry.key));
    for (ObjectEntry& entry : metadata.objects) NXDKIT_TRY(AddObject(rank, entry).on(entry.key));
    out.paths.merge(metadata.paths);
    return OkStatus();
  }

  Result<Metadata> Finish() {
    for (const TensorEntry& entry : out.tensors)
      NXDKIT_TRY(CheckCover(entry).in(folder).on(entry.key));
    return std::move(out);
  }

  // An item of one rank in a file of another would be listed twice, or belong to an older save.
  static Status CheckOwner(int64_t rank, const ItemPlace& place) {
    if (place.file.starts_with(fmt::format("__{}_", rank))) return OkStatus();
    return Corrupt("the item is in {}, which is not a file of rank {}", EscapeControl(place.file),
                   rank);
  }

  Status AddTensor(int64_t rank, TensorEntry& entry) {
    for (const Chunk& chunk : entry.chunks) NXDKIT_TRY(CheckOwner(rank, chunk.place));
    const auto [number, added] = tensors.emplace(entry.key, out.tensors.size());
    if (added) {
      out.tensors.push_back(std::move(entry));
      return OkStatus();
    }
    TensorEntry& known = out.tensors[number->second];
    if (known.shape != entry.shape || known.dtype != entry.dtype)
      return Corrupt("rank {} says {} {}, ranks before it {} {}", rank, Name(entry.dtype),
                     ShapeText(entry.shape), Name(known.dtype), ShapeText(known.shape));
    std::ranges::move(entry.chunks, std::back_inserter(known.chunks));
    return OkStatus();
  }

  // Keeps all of them for now: FoldObjects compares them after their places have been checked.
  Status AddObject(int64_t rank, ObjectEntry& entry) {
    NXDKIT_TRY(CheckOwner(rank, entry.place));
    out.objects.push_back(std::move(entry));
    return OkStatus();
  }
};

// Whether the two have the same bytes. Both are inside their files, and overlap nothing: comparing
// all objects reads no more bytes than the files have.
Result<bool> IsSame(const Folder& folder, const ObjectEntry& a, const ObjectEntry& b) {
  if (a.place.bytes != b.place.bytes) return false;
  NXDKIT_ASSIGN(const std::string first, ReadItem(folder, a));
  NXDKIT_ASSIGN(const std::string second, ReadItem(folder, b));
  return first == second;
}

// Every rank saves all objects. Where they differ, the lowest rank's is taken, with a warning.
Status FoldObjects(Folder& folder) {
  std::vector<ObjectEntry> kept;
  std::unordered_map<std::string, size_t> numbers;  // of these, by key
  std::set<std::string> differing;
  for (ObjectEntry& entry : folder.metadata.objects) {
    const auto [number, added] = numbers.emplace(entry.key, kept.size());
    if (added) {
      kept.push_back(std::move(entry));
      continue;
    }
    NXDKIT_ASSIGN(const bool same, IsSame(folder, kept[number->second], entry));
    if (!same) differing.insert(entry.key);
  }
  folder.metadata.objects = std::move(kept);
  for (const std::string& key : differing) WarnOfDifference(folder, key);
  return OkStatus();
}

// The file that holds the object's item, which must be inside it.
Result<std::shared_ptr<const File>> OpenItem(const Folder& folder, const ObjectEntry& entry) {
  const ItemPlace& place = entry.place;
  if (place.bytes > kMaxObjectBytes)
    return Unsupported("the object has {} bytes, the limit is {}", place.bytes, kMaxObjectBytes);
  const std::string path = JoinPath(folder.path, place.file);
  NXDKIT_TRY(CheckInside(folder.path, place.file));
  NXDKIT_ASSIGN(File file, File::OpenRead(path));
  if (place.offset > file.bytes() || place.bytes > file.bytes() - place.offset)
    return Corrupt("the item of {} bytes is not inside the file, which has {}", place.bytes,
                   file.bytes())
        .in(path)
        .at(place.offset);
  return std::make_shared<const File>(std::move(file));
}

std::string RankMetadataName(int64_t rank) { return fmt::format("__{}{}", rank, kMetadataFile); }

// The number of ranks, which must count from 0 without a gap.
Result<int64_t> CountRanks(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(folder));
  std::set<int64_t> ranks;
  for (const std::string& name : names)
    if (const auto rank = RankOfMetadata(name)) ranks.insert(*rank);
  const auto count = static_cast<int64_t>(ranks.size());
  for (int64_t rank = 0; rank < count; ++rank)
    if (!ranks.contains(rank))
      return Corrupt("there is no {}, and there is {}: the save of a rank was not completed",
                     RankMetadataName(rank), RankMetadataName(*ranks.rbegin()))
          .in(folder);
  return count;
}

}  // namespace

Result<Folder> OpenCheckpoint(const std::string& path) {
  const std::string file = JoinPath(path, kMetadataFile);
  NXDKIT_ASSIGN(const std::string text, ReadFolderFile(path, kMetadataFile, kMaxMetadataBytes));
  NXDKIT_ASSIGN(Metadata metadata, ParseMetadata(text).in(file));
  return ItemOpener(path, FolderForm::kCheckpoint, std::move(metadata), file).Run();
}

std::optional<int64_t> RankOfMetadata(std::string_view name) {
  constexpr std::string_view kPrefix = "__";
  const std::string_view suffix = kMetadataFile;
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.size() <= suffix.size()) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto rank = ParseNumber<int64_t>(name);
  return rank && *rank >= 0 && std::to_string(*rank) == name ? rank : std::nullopt;
}

Result<Folder> OpenRankLocal(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const int64_t ranks, CountRanks(path, look));
  RankJoiner joiner{path};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::string name = RankMetadataName(rank);
    const std::string file = JoinPath(path, name);
    NXDKIT_ASSIGN(const std::string text, ReadFolderFile(path, name, kMaxMetadataBytes));
    NXDKIT_ASSIGN(Metadata metadata, ParsePartOfMetadata(text).in(file));
    NXDKIT_TRY(joiner.Add(rank, std::move(metadata)).in(file));
  }
  NXDKIT_ASSIGN(Metadata metadata, joiner.Finish());
  NXDKIT_ASSIGN(Folder folder, ItemOpener(path, FolderForm::kRankLocal, std::move(metadata),
                                          JoinPath(path, RankMetadataName(0)))
                                   .Run());
  NXDKIT_TRY(FoldObjects(folder));
  return folder;
}

Result<std::string> ReadItem(const Folder& folder, const ObjectEntry& entry) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, OpenItem(folder, entry).on(entry.key));
  const FileView view(*file, entry.place.offset, entry.place.bytes);
  if (entry.place.zstd) return Decompressed(view, kMaxObjectBytes).on(entry.key);
  std::string bytes(static_cast<size_t>(entry.place.bytes), '\0');
  NXDKIT_TRY(view.ReadAt(0, std::as_writable_bytes(std::span(bytes))).on(entry.key));
  return bytes;
}

Result<torch::Archive> ReadItemArchive(const Folder& folder, const ObjectEntry& entry,
                                       torch::ReadOptions::Allowed allowed) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, OpenItem(folder, entry).on(entry.key));
  const torch::ReadOptions options = {.check_crc = true, .allowed = allowed};
  if (!entry.place.zstd)
    return torch::ReadArchiveAt(file, entry.place.offset, entry.place.bytes, options);
  NXDKIT_ASSIGN(File temporary, File::OpenTemporary());
  const FileView view(*file, entry.place.offset, entry.place.bytes);
  NXDKIT_ASSIGN(const uint64_t bytes, Decompress(view, kMaxObjectBytes, temporary, 0));
  NXDKIT_TRY(temporary.Measure());
  return torch::ReadArchiveAt(std::make_shared<const File>(std::move(temporary)), 0, bytes,
                              options);
}

}  // namespace nxdkit::dcp
