#include "formats/dcp/folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/file_cache.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr size_t kMaxOpenFiles = 128;
constexpr uint64_t kMaxObjectBytes = 64 << 20;

// An item, and the key that it belongs to.
struct Item {
  const ItemPlace* place;
  const std::string* key;
  bool is_object = false;
};

// Whether the file lies in the folder, also when it is a symbolic link.
bool LiesIn(const std::string& path, const std::string& folder) {
  return RealPath(path).starts_with(RealPath(folder) + "/");
}

Result<std::string> ReadMetadataText(const std::string& folder) {
  const std::string path = JoinPath(folder, kMetadataFile);
  if (KindOf(path) == PathKind::kMissing)
    return Corrupt("there is no .metadata: the save did not come to its end")
        .in(folder)
        .hint("torch writes it last; take an earlier checkpoint");
  return ReadSmallFile(path, kMaxMetadataBytes);
}

class Opener {
 public:
  explicit Opener(std::string path) { out_.path = std::move(path); }

  Result<Folder> Run() {
    const std::string metadata = JoinPath(out_.path, kMetadataFile);
    NXDKIT_ASSIGN(const std::string text, ReadMetadataText(out_.path));
    NXDKIT_ASSIGN(out_.metadata, ParseMetadata(text).in(metadata));
    NXDKIT_TRY(OpenFiles(metadata));
    NXDKIT_TRY(ListArchives());
    for (const TensorEntry& entry : out_.metadata.tensors)
      NXDKIT_TRY(ReadEntry(entry).on(entry.key));
    return std::move(out_);
  }

 private:
  std::vector<Item> Items() const {
    std::vector<Item> items;
    for (const TensorEntry& entry : out_.metadata.tensors)
      for (const Chunk& chunk : entry.chunks) items.push_back({&chunk.place, &entry.key});
    for (const ObjectEntry& entry : out_.metadata.objects)
      items.push_back({&entry.place, &entry.key, true});
    return items;
  }

  Status OpenFiles(const std::string& metadata) {
    for (const Item& item : Items()) numbers_.emplace(item.place->file, 0);
    if (numbers_.size() > kMaxOpenFiles)
      cache_ = std::make_shared<FileCache>(FileCache::Mode::kRead, kMaxOpenFiles);
    for (auto& [name, number] : numbers_) {
      number = static_cast<uint32_t>(out_.files.size());
      const std::string path = JoinPath(out_.path, name);
      if (KindOf(path) == PathKind::kMissing)
        return Corrupt("the file is missing; .metadata says what is in it").in(path);
      if (!LiesIn(path, out_.path))
        return Corrupt("the file {} is a link that leads out of the folder", name).in(metadata);
      NXDKIT_ASSIGN(File file, File::OpenRead(path));
      out_.files.push_back({path, "torch distributed", file.bytes(), {}, {}});
      open_.push_back(cache_ ? nullptr : std::make_shared<const File>(std::move(file)));
    }
    return OkStatus();
  }

  Result<std::shared_ptr<const File>> FileOf(uint32_t number) const {
    if (open_[number]) return open_[number];
    return cache_->Get(out_.files[number].path);
  }

  // Every item inside its file, and beside the others.
  Status ListArchives() {
    std::vector<Item> items = Items();
    std::ranges::stable_sort(items, {}, [](const Item& item) {
      return std::tie(item.place->file, item.place->offset, item.place->bytes);
    });
    const ItemPlace* last = nullptr;
    for (const auto& [place, key, is_object] : items) {
      const TensorFile& file = out_.files[numbers_.at(place->file)];
      if (place->offset > file.file_bytes || place->bytes > file.file_bytes - place->offset)
        return Corrupt("the item of {} bytes is not inside the file, which has {}", place->bytes,
                       file.file_bytes)
            .in(file.path)
            .on(*key)
            .at(place->offset);
      const bool same = last && *last == *place;
      // Tensors may be one; of objects a small file would make as many as it likes.
      if (same && is_object)
        return Corrupt("the object lies where another item does")
            .in(file.path)
            .on(*key)
            .at(place->offset);
      if (last && !same && last->file == place->file && last->offset + last->bytes > place->offset)
        return Corrupt("the item begins inside of another one, which ends at {}",
                       last->offset + last->bytes)
            .in(file.path)
            .on(*key)
            .at(place->offset);
      if (!same) out_.archives.push_back({file.path, place->offset, place->bytes});
      last = place;
    }
    return OkStatus();
  }

  Status ReadEntry(const TensorEntry& entry) {
    StoredEntry stored{entry.key, entry.dtype, entry.shape, {}};
    for (const Chunk& chunk : entry.chunks) {
      const uint32_t number = numbers_.at(chunk.place.file);
      NXDKIT_ASSIGN(StoredTensor tensor, ReadChunk(entry, chunk, number));
      out_.files[number].tensors.push_back(tensor);
      stored.chunks.push_back({chunk.box, number, std::move(tensor)});
    }
    out_.tensors.push_back(std::move(stored));
    return OkStatus();
  }

  Result<StoredTensor> ReadChunk(const TensorEntry& entry, const Chunk& chunk, uint32_t number) {
    const auto wrong = [&](Error error) {
      return std::move(error).in(out_.files[number].path).at(chunk.place.offset);
    };
    NXDKIT_ASSIGN(const std::shared_ptr<const File> file, FileOf(number));
    NXDKIT_ASSIGN(const torch::Archive archive,
                  torch::ReadArchiveAt(file, chunk.place.offset, chunk.place.bytes));
    const torch::TensorIndex* index = archive.root.tensor();
    if (!index) return wrong(Corrupt("the item holds something else than one tensor"));
    StoredTensor tensor = archive.tensors.at(index->index);
    if (tensor.shape != chunk.box.extent)
      return wrong(Corrupt("the item holds a tensor of shape {}, .metadata says {}",
                           ShapeText(tensor.shape), ShapeText(chunk.box.extent)));
    if (tensor.dtype != entry.dtype)
      return wrong(Corrupt("the item holds elements of {}, .metadata says {}", Name(tensor.dtype),
                           Name(entry.dtype)));
    tensor.name = entry.key;
    if (cache_ && tensor.storage->is_file_range())
      tensor.storage = CachedFileStorage(cache_, out_.files[number].path,
                                         tensor.storage->file_offset(), tensor.storage->bytes());
    for (const std::string& warning : archive.warnings)
      if (out_.warnings.size() < 20)
        out_.warnings.push_back(
            fmt::format("{}: {}: {}", out_.files[number].path, entry.key, warning));
    return tensor;
  }

  Folder out_;
  std::map<std::string, uint32_t> numbers_;        // of files, by name
  std::vector<std::shared_ptr<const File>> open_;  // null: too many to be kept open
  std::shared_ptr<FileCache> cache_;
};

// The bytes of an object, checked to be in bounds.
Result<std::shared_ptr<const File>> OpenObject(const Folder& folder, const ObjectEntry& entry) {
  if (entry.place.bytes > kMaxObjectBytes)
    return Unsupported("the object has {} bytes, the limit is {}", entry.place.bytes,
                       kMaxObjectBytes);
  NXDKIT_ASSIGN(File file, File::OpenRead(JoinPath(folder.path, entry.place.file)));
  return std::make_shared<const File>(std::move(file));
}

}  // namespace

bool LooksLikeFolder(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return false;
  if (KindOf(JoinPath(path, kMetadataFile)) == PathKind::kFile) return true;
  const auto names = ListFolder(path);
  return names.ok() &&
         std::ranges::any_of(*names, [](const std::string& n) { return n.ends_with(".distcp"); });
}

Result<Folder> Open(const std::string& path) { return Opener(path).Run(); }

Result<std::string> ReadObject(const Folder& folder, const ObjectEntry& entry) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, OpenObject(folder, entry).on(entry.key));
  std::string bytes(static_cast<size_t>(entry.place.bytes), '\0');
  NXDKIT_TRY(
      file->ReadAt(entry.place.offset, std::as_writable_bytes(std::span(bytes))).on(entry.key));
  return bytes;
}

Result<torch::PickleValue> ReadObjectValue(const Folder& folder, const ObjectEntry& entry) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, OpenObject(folder, entry).on(entry.key));
  NXDKIT_ASSIGN(torch::Archive archive, torch::ReadArchiveAt(file, entry.place.offset,
                                                             entry.place.bytes, {.check_crc = true})
                                            .on(entry.key));
  if (!archive.tensors.empty())
    return Unsupported("the object holds tensors").in(file->path()).on(entry.key);
  return std::move(archive.root);
}

}  // namespace nxdkit::dcp
