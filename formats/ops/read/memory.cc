#include "formats/ops/read/memory.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <span>

#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

using MemoryPlace = std::array<int, 3>;  // tp, pp, ep rank

std::string PlaceText(const MemoryPlace& place) {
  return fmt::format("tp rank {}, pp rank {}{}", place[0], place[1],
                     place[2] > 0 ? fmt::format(", ep rank {}", place[2]) : "");
}

// The bytes from a tensor's first element to its last; nullopt on overflow.
std::optional<uint64_t> SpannedBytes(const MemoryTensor& tensor, const Shape& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    const std::optional<int64_t> reach = CheckedMul(tensor.shape[d] - 1, strides[d]);
    const std::optional<int64_t> sum = reach ? CheckedAdd(last, *reach) : std::nullopt;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  const std::optional<int64_t> elements = CheckedAdd<int64_t>(last, 1);
  const std::optional<int64_t> bytes =
      elements ? CheckedMul(*elements, ElementBytes(tensor.dtype)) : std::nullopt;
  return bytes ? CheckedCast<uint64_t>(*bytes) : std::nullopt;
}

Result<Shape> StridesOf(const MemoryTensor& tensor) {
  const Shape packed = RowMajorStrides(tensor.shape);
  if (tensor.strides.empty()) return packed;
  if (tensor.strides.size() != tensor.shape.size())
    return BadUsage("{} strides of {} dimensions", tensor.strides.size(), tensor.shape.size());
  for (size_t d = 0; d < tensor.strides.size(); ++d)
    if (tensor.strides[d] < 0)
      return BadUsage("stride {} of dimension {}, expected 0 or more", tensor.strides[d], d);
  if (ElementBytes(tensor.dtype) == 0 && tensor.strides != packed)
    return BadUsage("strides {} of a tensor of {}, whose elements are smaller than a byte",
                    ShapeText(tensor.strides), Name(tensor.dtype));
  return tensor.strides;
}

// Tensors in the same memory share one storage, as in a file that stores a tied pair once.
class MemoryStorages {
 public:
  explicit MemoryStorages(std::string name) : name_(std::move(name)) {}

  Result<StoredTensor> Store(const MemoryTensor& tensor) {
    if (!ElementCount(tensor.shape))
      return BadUsage("shape {} has a negative length, or too many elements",
                      ShapeText(tensor.shape));
    NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(tensor.dtype, tensor.shape));
    NXDKIT_ASSIGN(const Shape strides, StridesOf(tensor));
    uint64_t bytes = packed;
    if (packed > 0 && ElementBytes(tensor.dtype) > 0) {
      const std::optional<uint64_t> spanned = SpannedBytes(tensor, strides);
      if (!spanned || *spanned > INT64_MAX)
        return BadUsage("shape {} with strides {} is more than memory can hold",
                        ShapeText(tensor.shape), ShapeText(strides));
      bytes = *spanned;
    }
    if (bytes > 0 && tensor.data == nullptr)
      return BadUsage("no memory was given for {} bytes", bytes);
    std::shared_ptr<const Storage>& storage = storages_[{tensor.data, bytes}];
    if (!storage) storage = BorrowedStorage({tensor.data, bytes}, name_);
    return StoredTensor{tensor.name, tensor.dtype, tensor.shape, strides, 0, false, storage};
  }

 private:
  std::string name_;
  std::map<std::pair<const std::byte*, uint64_t>, std::shared_ptr<const Storage>> storages_;
};

class MemoryOpener {
 public:
  explicit MemoryOpener(const MemoryModel& model) : model_(model) {}

  Status Fill(Artifact& artifact) {
    if (model_.tensors.empty()) return BadUsage("there are no tensors").in(model_.name);
    for (const MemoryTensor& tensor : model_.tensors)
      NXDKIT_TRY(Add(tensor).on(tensor.name).in(model_.name));
    return model_.layout == &kNxd ? FillShards(artifact) : FillModel(artifact);
  }

 private:
  Status Add(const MemoryTensor& tensor) {
    const MemoryPlace place{tensor.tp, tensor.pp, tensor.ep};
    for (const int rank : place)
      if (rank < 0 || rank > kMostRank)
        return BadUsage("rank {}, expected 0 to {}", rank, kMostRank);
    if (model_.layout != &kNxd && place != MemoryPlace{})
      return BadUsage("it belongs to {}, but a model's parameters have no rank", PlaceText(place));
    if (!names_[place].insert(tensor.name).second)
      return BadUsage("two tensors of this name ({})", PlaceText(place));
    TensorFile& file = files_[place];
    if (file.path.empty()) file.path = PathOf(place);
    file.format = kInMemory;
    MemoryStorages& storages = storages_.try_emplace(place, file.path).first->second;
    NXDKIT_ASSIGN(StoredTensor stored, storages.Store(tensor));
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensor.dtype, tensor.shape));
    const std::optional<uint64_t> all = CheckedAdd(file.file_bytes, bytes);
    if (!all || *all > INT64_MAX)
      return BadUsage("the tensors have more bytes than can be counted");
    file.file_bytes = *all;
    file.tensors.push_back(std::move(stored));
    return OkStatus();
  }

  std::string PathOf(const MemoryPlace& place) const {
    if (model_.layout != &kNxd) return model_.name;
    return fmt::format("{} ({})", model_.name, PlaceText(place));
  }

  Status FillModel(Artifact& artifact) {
    TensorFile& file = files_.begin()->second;
    artifact.ranks.push_back({model_.name, -1, -1});
    artifact.files.push_back(std::move(file));
    return OkStatus();
  }

  // Checks that all combinations of ranks from 0 on are there.
  Status CheckGrid(const MemoryPlace& ends) const {
    const bool has_ep = ends[2] > 1;
    for (int t = 0; t < ends[0]; ++t)
      for (int p = 0; p < ends[1]; ++p)
        for (int e = 0; e < ends[2]; ++e)
          if (!files_.contains({t, p, e}))
            return BadUsage(
                       "no tensors of tp rank {}, pp rank {}{}; the shards have tp {}, pp {}{}", t,
                       p, has_ep ? fmt::format(", ep rank {}", e) : "", ends[0], ends[1],
                       has_ep ? fmt::format(", ep {}", ends[2]) : "")
                .in(model_.name)
                .hint("give the shards of all ranks");
    return OkStatus();
  }

  Status FillShards(Artifact& artifact) {
    MemoryPlace ends{};
    for (const auto& [place, file] : files_)
      for (size_t axis = 0; axis < ends.size(); ++axis)
        ends[axis] = std::max(ends[axis], place[axis] + 1);
    NXDKIT_TRY(CheckGrid(ends));
    auto state = std::make_shared<NxdState>();
    nxd::SetLocation& location = state->set.location;
    location.shard_folder = model_.name;
    location.tp = ends[0];
    location.pp = ends[1];
    location.ep = ends[2];
    for (auto& [place, file] : files_) {  // ascending: by tp, pp, ep
      const nxd::ShardFile shard{file.path, place[0], place[1], place[2]};
      location.files.push_back(shard);
      state->set.shards.push_back({shard, file});
      artifact.ranks.push_back({file.path, shard.tp, shard.pp, shard.ep});
      artifact.files.push_back(std::move(file));
    }
    artifact.state = std::move(state);
    return OkStatus();
  }

  static constexpr int kMostRank = (1 << 20) - 1;
  const MemoryModel& model_;
  std::map<MemoryPlace, MemoryStorages> storages_;
  std::map<MemoryPlace, TensorFile> files_;
  std::map<MemoryPlace, std::set<std::string>> names_;
};

}  // namespace

Result<Artifact> OpenMemory(const MemoryModel& model, const InputHints& hints) {
  if (model.layout != &kHf && model.layout != &kNxd)
    return BadUsage("tensors in memory are laid out as hf or nxd").in(model.name);
  Artifact artifact;
  artifact.kind = model.layout;
  artifact.path = model.name;
  NXDKIT_TRY(CheckHints(*model.layout, model.name, hints));
  NXDKIT_TRY(MemoryOpener(model).Fill(artifact));
  NXDKIT_TRY(LoadConfig(artifact, hints, {}));
  return artifact;
}

}  // namespace nxdkit::ops
