#include "formats/zero/tag_entries.h"

#include <fmt/core.h>

#include <utility>

#include "formats/dtensor/rank_values.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::zero {
namespace {

using torch::PickleValue;

constexpr char kGroupKeys[] = "optimizer.param_groups.";

// torch names an archive's folder after the file saved.
Status CheckFolder(const torch::Archive& archive, const std::string& name) {
  const std::string& folder = archive.folder;
  const bool ours = folder.ends_with("_model_states") || folder.ends_with("_optim_states");
  if (!ours || folder + ".pt" == name) return OkStatus();
  return Corrupt("the archive was saved as {}.pt", EscapeControl(folder))
      .hint("it is another file, under this one's name");
}

}  // namespace

std::string StateKey(const std::string& name, std::string_view what) {
  return fmt::format("optimizer.state.{}.{}", name, what);
}

Result<torch::Archive> TagEntries::Read(const std::string& name, int rank) {
  const uint32_t file = files_.Number(name);
  NXDKIT_ASSIGN(const std::shared_ptr<const File> opened, files_.Get(file));
  NXDKIT_ASSIGN(torch::Archive archive,
                torch::ReadArchiveAt(opened, 0, opened->bytes(),
                                     {.allowed = torch::ReadOptions::Allowed::kAny}));
  NXDKIT_TRY(CheckFolder(archive, name).in(opened->path()).rank(rank));
  if (!read_.insert(file).second) return archive;
  out_.archives.push_back({opened->path(), 0, opened->bytes()});
  for (const std::string& warning : archive.warnings)
    AddWarning(out_, fmt::format("{}: {}", opened->path(), warning));
  return archive;
}

Status TagEntries::AddWhole(const std::string& file, const std::string& key,
                            const StoredTensor& stored) {
  const Box box = WholeBox(stored.shape);
  dtensor::LocalShard shard{stored.shape, {}};
  if (box.Volume() > 0) shard.parts.push_back({box, Shape(stored.shape.size(), 0)});
  return entries_.Add({files_.Number(file), 0}, key, stored.shape, stored, shard);
}

Status TagEntries::AddRanges(const std::map<int, std::string>& files, const Place& place,
                             const std::string& key, const FlatOf& flat_of) {
  for (const Range& range : place.ranges) {
    const StoredTensor* flat = flat_of(range.rank);
    if (!flat) return Corrupt("rank {} has no part of it", range.rank).on(key).rank(range.rank);
    if (flat->shape[0] < range.at + range.count)
      return Corrupt("rank {} has {} elements of the flat group {}, expected {} or more",
                     range.rank, flat->shape[0], place.group, range.at + range.count)
          .on(key)
          .in(flat->storage->path())
          .rank(range.rank);
    NXDKIT_TRY(entries_.AddRange({files_.Number(files.at(range.rank)), range.rank}, key,
                                 place.shape, *flat, {range.at, range.first, range.count}));
  }
  if (!place.ranges.empty()) return OkStatus();
  const StoredTensor* flat = flat_of(0);
  StoredTensor empty = flat ? *flat : StoredTensor();
  empty.shape = place.shape;
  empty.strides = RowMajorStrides(place.shape);
  return entries_.Add({files_.Number(files.at(0)), 0}, key, place.shape, empty, {place.shape, {}});
}

Status TagEntries::AddStep(const std::string& file, const std::string& name, double step) {
  const uint32_t number = files_.Number(file);
  const StoredTensor stored = ScalarTensor("", step, files_.files[number].path);
  return entries_.Add({number, 0}, StateKey(name, "step"), {}, stored, {{}, {{{}, {}}}});
}

Status TagEntries::AddOptions(const std::string& name, const PickleValue& group) {
  if (!group.dict()) return Corrupt("a group of options that is not a dict");
  for (const auto& [option, value] : *group.dict()) {
    // FusedAdam leaves a step of 0 in its groups: the one in the state counts.
    if (!option.string() || *option.string() == "params" || *option.string() == "step") continue;
    if (!dtensor::IsPlain(value)) continue;
    NXDKIT_TRY(entries_.AddObject(
        fmt::format("{}{}.{}", kGroupKeys, name, *option.string()), value,
        PickleValue::MakeTuple({{"optimizer"}, {"param_groups"}, {name}, {*option.string()}})));
  }
  return OkStatus();
}

}  // namespace nxdkit::zero
