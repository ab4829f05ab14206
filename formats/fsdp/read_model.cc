#include "formats/fsdp/read_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::fsdp {
namespace {

constexpr std::string_view kFlatParameter = "_flat_param";

}  // namespace

Result<torch::Archive> ReadRankArchive(const dcp::FolderFiles& files, uint32_t file,
                                       torch::ReadOptions::Allowed allowed,
                                       const RankFileName& name, dcp::Folder& out) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> opened, files.Get(file));
  NXDKIT_ASSIGN(torch::Archive archive,
                torch::ReadArchiveAt(opened, 0, opened->bytes(), {.allowed = allowed}));
  // State that was carried over to another number of ranks still belongs to its old rank.
  const auto saved = ParseFileName(archive.folder + ".pt");
  const bool same_world =
      name.part == FilePart::kExtraState || !saved || saved->world == name.world;
  if (saved && (saved->part != name.part || saved->rank != name.rank || !same_world))
    return Corrupt("the archive was saved as {}.pt", EscapeControl(archive.folder))
        .hint("it is the file of another rank, under this one's name");
  out.archives.push_back({opened->path(), 0, opened->bytes()});
  for (const std::string& warning : archive.warnings)
    AddWarning(out, fmt::format("{}: {}", opened->path(), warning));
  return archive;
}

Status CheckMesh(const dtensor::DeviceMesh& mesh, int world, int rank) {
  std::vector<int64_t> sorted = mesh.ranks;
  std::ranges::sort(sorted);
  const bool known = !sorted.empty() && sorted.front() >= 0 && sorted.back() < world &&
                     std::ranges::adjacent_find(sorted) == sorted.end();
  const auto place = mesh.PlaceOf(rank);
  if (!known || !place)
    return Corrupt("a mesh of {} ranks, which does not include rank {} of {}", sorted.size(), rank,
                   world);
  if (!mesh.coordinate || *mesh.coordinate == *place) return OkStatus();
  return Corrupt("the file says that its rank is at {} of the mesh {}, rank {} is at {}",
                 ShapeText(*mesh.coordinate), ShapeText(mesh.shape), rank, ShapeText(*place))
      .hint("it is the file of another rank, under this one's name");
}

namespace {

// Where a rank's tensor is longer than its part, and packed, the rest is padding.
Result<dtensor::LocalShard> WithoutPadding(const StoredTensor& stored,
                                           const dtensor::Place& place) {
  const dtensor::LocalShard& shard = place.shard;
  const bool longer = !stored.shape.empty() && stored.shape.size() == shard.shape.size() &&
                      stored.shape[0] > shard.shape[0] &&
                      std::equal(stored.shape.begin() + 1, stored.shape.end(),
                                 shard.shape.begin() + 1, shard.shape.end());
  if (!longer || !place.mesh || !IsPacked(stored)) return shard;
  // The padded number of rows: that of the first rank.
  int64_t longest = place.shape[0];
  for (size_t m = 0; m < place.placements.size(); ++m)
    if (place.placements[m].kind == dtensor::Placement::Kind::kShard &&
        place.placements[m].dim == 0)
      longest = dtensor::PartOf({0, longest}, place.mesh->shape[m], 0).count;
  if (stored.shape[0] != longest) return shard;
  NXDKIT_ASSIGN(const bool zero, IsZeroFrom(stored, shard.shape[0]));
  if (!zero)
    return Corrupt("the rank has {} rows, of which {} are its own, and the others are not zero",
                   longest, shard.shape[0]);
  dtensor::LocalShard out = shard;
  out.shape = stored.shape;
  return out;
}

}  // namespace

Result<dtensor::LocalShard> PartsOf(const StoredTensor& stored,
                                    const std::optional<dtensor::Place>& place) {
  if (place) return WithoutPadding(stored, *place);
  dtensor::LocalShard whole{stored.shape, {}};
  const Box box = WholeBox(stored.shape);
  if (box.Volume() > 0) whole.parts.push_back({box, Shape(box.lo.size(), 0)});
  return whole;
}

Status ModelReader::Add(const torch::Archive& archive, uint32_t file, int rank) {
  NXDKIT_ASSIGN(const dtensor::RankValues values, dtensor::ValuesOf(archive));
  if (values.tensors.empty()) return Corrupt("the file has no tensors");
  const size_t before = facts_.tensors.size();
  for (const dtensor::RankTensor& tensor : values.tensors)
    NXDKIT_TRY(AddTensor(tensor, file, rank).on(tensor.path.Text()));
  // A tied pair is one storage under two names.
  std::map<std::tuple<const Storage*, uint64_t, Shape>, std::string> seen;
  for (const dtensor::RankTensor& tensor : values.tensors) {
    if (!tensor.stored.storage || *ElementCount(tensor.stored.shape) == 0 || before > 0) continue;
    const std::tuple view = {tensor.stored.storage.get(), tensor.stored.offset,
                             tensor.stored.shape};
    if (!seen.emplace(view, tensor.path.Text()).second)
      facts_.tensors[numbers_.at(tensor.path.Text())].shared = true;
  }
  return OkStatus();
}

Status ModelReader::AddTensor(const dtensor::RankTensor& tensor, uint32_t file, int rank) {
  const std::string name = tensor.path.Text();
  if (name.ends_with(kFlatParameter))
    return Unsupported(
               "a flat parameter of an FSDP unit (LOCAL_STATE_DICT): no file lists the parameters "
               "in it")
        .hint("save with FSDP's SHARDED_STATE_DICT, as EasyR1 and verl do");
  const std::optional<dtensor::Place>& place = tensor.place;
  if (place && place->mesh) {
    if (place->mesh != checked_) NXDKIT_TRY(CheckMesh(*place->mesh, facts_.set.world, rank));
    checked_ = place->mesh;
    // A tensor that tensor parallelism does not cut is cut over some of the ranks, and the others
    // have copies.
    if (!facts_.mesh || facts_.mesh->ranks.size() < place->mesh->ranks.size())
      facts_.mesh = *place->mesh;
  }
  const auto [number, added] = numbers_.emplace(name, facts_.tensors.size());
  if (added) {
    ModelTensor one{name,
                    tensor.stored.dtype,
                    place ? place->shape : tensor.stored.shape,
                    place.has_value(),
                    false,
                    {}};
    if (place) one.placements = place->placements;
    facts_.tensors.push_back(std::move(one));
    ranks_.emplace_back();
    has_dtype_.push_back(false);
  } else {
    NXDKIT_TRY(Check(facts_.tensors[number->second], tensor, rank));
  }
  std::vector<int>& ranks = ranks_[number->second];
  const bool again = !ranks.empty() && ranks.back() == rank;
  if (!again) ranks.push_back(rank);
  if (!tensor.stored.storage) return OkStatus();  // the rank has no part of it
  if (!has_dtype_[number->second]) facts_.tensors[number->second].dtype = tensor.stored.dtype;
  has_dtype_[number->second] = true;
  const Shape& shape = place ? place->shape : tensor.stored.shape;
  NXDKIT_ASSIGN(const dtensor::LocalShard shard, PartsOf(tensor.stored, place));
  return entries_.Add({file, rank}, name, shape, tensor.stored, shard, again && place.has_value());
}

// Compares with what an earlier rank had.
Status ModelReader::Check(const ModelTensor& known, const dtensor::RankTensor& tensor,
                          int rank) const {
  if (known.placed != tensor.place.has_value())
    return Corrupt("rank {} has it {}, an earlier rank {}", rank,
                   tensor.place ? "distributed" : "plain", known.placed ? "distributed" : "plain");
  if (!tensor.place) return OkStatus();  // the entries compare shapes
  if (tensor.place->shape != known.shape)
    return Corrupt("rank {} has the shape {}, an earlier rank {}", rank,
                   ShapeText(tensor.place->shape), ShapeText(known.shape));
  if (tensor.place->placements == known.placements) return OkStatus();
  return Corrupt("rank {} has {}, an earlier rank {}", rank,
                 dtensor::PlacementText(tensor.place->placements),
                 dtensor::PlacementText(known.placements));
}

Status ModelReader::Finish(size_t ranks) const {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].size() != ranks)
      return Corrupt("{} of {} ranks have it: {}", ranks_[i].size(), ranks, RanksText(ranks_[i]))
          .on(facts_.tensors[i].name);
  return OkStatus();
}

}  // namespace nxdkit::fsdp
