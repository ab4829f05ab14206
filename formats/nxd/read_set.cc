#include <fmt/core.h>

#include <set>

#include "formats/nxd/nnm_names.h"
#include "formats/nxd/shard_set.h"
#include "formats/nxd/tensor_files.h"
#include "formats/torch/archive.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

class SetReader {
 public:
  explicit SetReader(const SetLocation& location)
      : location_(location), files_(location.files.size()) {}

  Result<Shard> ReadShard(const ShardFile& file) {
    NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file.path));
    const torch::PickleDict* dict = StateDict(archive.root);
    if (!dict) return NoStateDict(archive.root).in(file.path).member("data.pkl");
    Shard shard{file, {archive.path, archive.format, archive.file_bytes, {}, {}}};
    std::set<std::string> names;
    for (const auto& [key, value] : *dict) {
      const std::string* name = key.string();
      if (!name)
        return Error(Errc::kCorrupt, "a key of the state dict is not a string")
            .in(file.path)
            .member("data.pkl");
      if (!value.tensor() && !value.reference()) {
        Skip(*name, value);
        continue;
      }
      if (!names.insert(*name).second)
        return Error(Errc::kCorrupt, "the state dict names the tensor twice")
            .in(file.path)
            .on(*name);
      if (const torch::TensorIndex* index = value.tensor()) {
        shard.tensors.tensors.push_back(files_.Inside(archive, index->index));
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
  const std::string& optimizer_entry() const { return optimizer_entry_; }

 private:
  void Skip(const std::string& name, const torch::PickleValue& value) {
    skipped_.insert(name);
    // A count of steps or the name of the optimizer is no state.
    const bool holds =
        (value.dict() && !value.dict()->empty()) || (value.list() && !value.list()->empty());
    if (name.find("optim") != std::string::npos && holds) optimizer_entry_ = name;
  }

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
        if (key.string() && *key.string() != wrapper) Skip(*key.string(), value);
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

  // Adds the size of the tensor's file to `file_bytes`.
  Result<StoredTensor> Resolve(const ShardFile& file, int64_t tid, uint64_t& file_bytes) {
    std::string path = TensorFiles::PathOf(file.path, tid);
    if (KindOf(path) != PathKind::kFile && file.ep > 0)
      path = TensorFiles::PathOf(FirstExpertRank(file), tid);
    if (KindOf(path) != PathKind::kFile) return MissingTensorFile(file, path);
    return files_.Open(path, file_bytes);
  }

  // Tensors that are no experts' are written by expert parallel rank 0 only.
  std::string FirstExpertRank(const ShardFile& file) const {
    for (const ShardFile& other : location_.files)
      if (other.tp == file.tp && other.pp == file.pp && other.ep == 0) return other.path;
    return file.path;
  }

  Error MissingTensorFile(const ShardFile& file, const std::string& path) const {
    const auto entries = ListFolder(ParentPath(path));
    if (entries.ok() && entries->empty())
      return Error(Errc::kUnsupported,
                   "the weights were left out when the set was saved "
                   "(avoid_saving_lower_precision_weights): .tensors/ is empty")
          .in(file.path)
          .hint("they are in sharded_master_weights of the optimizer's files under optim/");
    return TensorFiles::Missing(file.path, path);
  }

  const SetLocation& location_;
  TensorFiles files_;
  std::set<std::string> skipped_;
  std::string optimizer_entry_;
};

}  // namespace

Result<ShardSet> Read(SetLocation location) {
  ShardSet set;
  SetReader reader(location);
  for (const ShardFile& file : location.files) {
    Result<Shard> shard = reader.ReadShard(file);
    if (!shard.ok()) return std::move(shard).error().in(file.path).rank(file.tp);
    set.shards.push_back(*std::move(shard));
  }
  if (location.style == SetStyle::kNnm) RenameNnm(set.shards);
  set.skipped = reader.skipped();
  set.optimizer_entry = reader.optimizer_entry();
  set.location = std::move(location);
  return set;
}

}  // namespace nxdkit::nxd
