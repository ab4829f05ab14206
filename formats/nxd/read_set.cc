#include <fmt/format.h>

#include <map>
#include <set>

#include "formats/nxd/nnm_names.h"
#include "formats/nxd/shard_set.h"
#include "formats/torch/archive.h"
#include "lib/file.h"
#include "lib/file_cache.h"

namespace nxdkit::nxd {
namespace {

// A part of a file that is opened only while it is read: an xser set has more tensor files than
// a process may have open, and a set of many ranks more shards.
class PathRange : public Storage {
 public:
  PathRange(std::shared_ptr<FileCache> cache, std::string path, uint64_t offset, uint64_t bytes)
      : cache_(std::move(cache)), path_(std::move(path)), offset_(offset), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return offset_; }
  bool is_file_range() const override { return true; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_ || to.size() > bytes_ - offset)
      return Error(Errc::kCorrupt,
                   fmt::format("{} bytes at {} of a storage of {}", to.size(), offset, bytes_))
          .in(path_);
    NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_->Get(path_));
    return file->ReadAt(offset_ + offset, to);
  }

 private:
  std::shared_ptr<FileCache> cache_;  // shared by all tensors of the set
  std::string path_;
  uint64_t offset_;
  uint64_t bytes_;
};

using StoragePtr = std::shared_ptr<const Storage>;

constexpr size_t kMaxOpenShards = 128;

class Reader {
 public:
  explicit Reader(const SetLocation& location) : location_(location) {}

  Result<Shard> ReadShard(const ShardFile& file) {
    NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file.path));
    const torch::PickleDict* dict = StateDict(archive.root);
    if (!dict) return NoStateDict(archive.root).in(file.path).member("data.pkl");
    std::map<const Storage*, StoragePtr> reopened;  // what was shared stays shared
    Shard shard{file, {archive.path, archive.format, archive.file_bytes, {}, {}}};
    std::set<std::string> names;
    for (const auto& [key, value] : *dict) {
      const std::string* name = key.string();
      if (!name)
        return Error(Errc::kCorrupt, "a key of the state dict is no string")
            .in(file.path)
            .member("data.pkl");
      if (!value.tensor() && !value.reference()) {
        skipped_.insert(*name);
        continue;
      }
      if (!names.insert(*name).second)
        return Error(Errc::kCorrupt, "the state dict names the tensor twice")
            .in(file.path)
            .on(*name);
      if (const torch::TensorIndex* index = value.tensor()) {
        shard.tensors.tensors.push_back(archive.tensors.at(index->index));
        StoragePtr& storage = shard.tensors.tensors.back().storage;
        if (location_.files.size() > kMaxOpenShards) {
          StoragePtr& again = reopened[storage.get()];
          if (!again) again = Reopened(storage, file.path);
          storage = again;
        }
      } else {
        Result<StoredTensor> tensor =
            Resolve(file, value.reference()->tid, shard.tensors.file_bytes);
        if (!tensor.ok()) return std::move(tensor).error().on(*name);
        shard.tensors.tensors.push_back(*std::move(tensor));
      }
      shard.tensors.tensors.back().name = *name;
    }
    return shard;
  }

  std::vector<std::string> skipped() const { return {skipped_.begin(), skipped_.end()}; }

 private:
  static bool HoldsTensors(const torch::PickleDict& dict) {
    for (const auto& [key, value] : dict)
      if (key.string() && (value.tensor() || value.reference())) return true;
    return false;
  }

  // The flat state dict: what the caller of save wrapped it in, or the root itself.
  const torch::PickleDict* StateDict(const torch::PickleValue& root) {
    const torch::PickleDict* dict = root.dict();
    if (!dict) return nullptr;
    if (const torch::PickleDict* inner = Unwrap(root, HoldsTensors)) return inner;
    if (HoldsTensors(*dict) || dict->empty()) return dict;
    // An expert parallel rank of a dense model may hold nothing.
    return Unwrap(root, [](const torch::PickleDict& inner) { return inner.empty(); });
  }

  const torch::PickleDict* Unwrap(const torch::PickleValue& root,
                                  bool (*fits)(const torch::PickleDict&)) {
    for (const char* wrapper : {"model", "state_dict", "module"}) {
      const torch::PickleValue* inner = root.Find(wrapper);
      if (!inner || !inner->dict() || !fits(*inner->dict())) continue;
      for (const auto& [key, value] : *root.dict())
        if (key.string() && *key.string() != wrapper) skipped_.insert(*key.string());
      return inner->dict();
    }
    return nullptr;
  }

  static Error NoStateDict(const torch::PickleValue& root) {
    if (root.Find("param_groups"))
      return Error(Errc::kUnsupported,
                   "the archive holds the state of an optimizer (param_groups), no weights");
    return Error(Errc::kCorrupt,
                 "the archive holds no dictionary of tensors, neither at its top nor under "
                 "\"model\" or \"state_dict\"");
  }

  // A stored record is reopened when it is read; an inflated one owns its temporary file.
  StoragePtr Reopened(const StoragePtr& storage, const std::string& path) const {
    if (!storage->is_file_range()) return storage;
    return std::make_shared<PathRange>(cache_, path, storage->file_offset(), storage->bytes());
  }

  std::string TensorPath(const std::string& main, int64_t tid) const {
    return JoinPath(main + ".tensors", fmt::format("tensor_{}.pt", tid));
  }

  // Adds the size of the tensor's file to `file_bytes`.
  Result<StoredTensor> Resolve(const ShardFile& file, int64_t tid, uint64_t& file_bytes) {
    std::string path = TensorPath(file.path, tid);
    if (KindOf(path) != PathKind::kFile && file.ep > 0)
      path = TensorPath(FirstExpertRank(file), tid);
    if (KindOf(path) != PathKind::kFile) return MissingTensorFile(file, path);
    NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
    const torch::TensorIndex* index = archive.root.tensor();
    if (!index)
      return Error(Errc::kCorrupt, "the archive holds something else than one tensor")
          .in(path)
          .member("data.pkl");
    StoredTensor tensor = archive.tensors.at(index->index);
    tensor.storage = Reopened(tensor.storage, path);
    file_bytes += archive.file_bytes;
    return tensor;
  }

  // Tensors that are no experts' are written by expert parallel rank 0 only.
  std::string FirstExpertRank(const ShardFile& file) const {
    for (const ShardFile& other : location_.files)
      if (other.tp == file.tp && other.pp == file.pp && other.ep == 0) return other.path;
    return file.path;
  }

  Error MissingTensorFile(const ShardFile& file, const std::string& path) const {
    const std::string folder = ParentPath(path);
    const auto entries = ListFolder(folder);
    if (!entries.ok())
      return Error(Errc::kCorrupt,
                   fmt::format("the tensors are in a folder {} beside this file, which is missing",
                               BaseName(folder)))
          .in(file.path);
    if (entries->empty())
      return Error(Errc::kUnsupported,
                   "the weights were left out when the set was saved "
                   "(avoid_saving_lower_precision_weights): .tensors/ is empty")
          .in(file.path)
          .hint("they are in sharded_master_weights of the optimizer's files under optim/");
    return Error(Errc::kCorrupt, fmt::format("the tensor file {} is missing", BaseName(path)))
        .in(folder);
  }

  const SetLocation& location_;
  std::shared_ptr<FileCache> cache_ = std::make_shared<FileCache>(FileCache::Mode::kRead, 256);
  std::set<std::string> skipped_;
};

}  // namespace

Result<ShardSet> Read(SetLocation location) {
  ShardSet set;
  Reader reader(location);
  for (const ShardFile& file : location.files) {
    Result<Shard> shard = reader.ReadShard(file);
    if (!shard.ok()) return std::move(shard).error().in(file.path).rank(file.tp);
    set.shards.push_back(*std::move(shard));
  }
  if (location.style == SetStyle::kNnm) RenameNnm(set.shards);
  set.skipped = reader.skipped();
  set.location = std::move(location);
  return set;
}

}  // namespace nxdkit::nxd
