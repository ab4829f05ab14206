#include "formats/zero/rank_optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::zero {
namespace {

constexpr int64_t kCompared = 256;  // elements compared to find a rank that occurs twice
constexpr size_t kDistinct = 8;     // distinct values needed to tell two ranks apart

// The number of ranks, as recorded by one of them, otherwise the number of files.
Result<int> WorldOf(const TagState& tag, const OptimizerFile& head) {
  if (head.ranks.empty()) return static_cast<int>(tag.files.optimizers.size());
  const int64_t world = *std::ranges::max_element(head.ranks);
  if (world >= 1 && world <= kMostRanks) return static_cast<int>(world);
  return Corrupt("partition_count is {}", world);
}

// Two files of one save agree in everything that is not a rank's own.
Status CheckAgrees(const OptimizerFile& head, const OptimizerFile& file, int rank) {
  const auto differs = [&](std::string_view what) {
    return Corrupt("rank {} has another {} than the earlier ranks", rank, what)
        .rank(rank)
        .hint("the files are of two saves");
  };
  if (file.stage != head.stage) return differs("zero_stage");
  if (file.ranks != head.ranks) return differs("partition_count");
  if (file.version != head.version) return differs("ds_version");
  if (file.holes != head.holes) return differs("param_alignment_paddings");
  if (file.group_of != head.group_of) return differs("number of groups");
  NXDKIT_ASSIGN(const std::string options,
                torch::WritePickle(torch::PickleValue::MakeList(file.options), {}));
  NXDKIT_ASSIGN(const std::string expected,
                torch::WritePickle(torch::PickleValue::MakeList(head.options), {}));
  if (options != expected) return differs("set of options (param_groups)");
  if (file.states.size() != head.states.size()) return differs("number of states");
  for (size_t g = 0; g < file.states.size(); ++g) {
    if (file.states[g].step != head.states[g].step) return differs("step");
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (!std::ranges::equal(file.states[g].tensors, head.states[g].tensors, same))
      return differs("list of states");
  }
  return OkStatus();
}

// The beginning of a rank's largest flat tensor; "" where it cannot tell ranks apart.
Result<std::string> BeginningOf(const OptimizerFile& file) {
  const auto largest = std::ranges::max_element(
      file.masters, {}, [](const StoredTensor& flat) { return flat.shape[0]; });
  if (largest == file.masters.end()) return std::string();
  const auto width = static_cast<size_t>(ElementBytes(largest->dtype));
  std::string bytes(static_cast<size_t>(std::min(kCompared, largest->shape[0])) * width, '\0');
  NXDKIT_TRY(largest->storage->ReadAt(largest->offset, std::as_writable_bytes(std::span(bytes))));
  std::set<std::string_view> distinct;
  for (size_t at = 0; at < bytes.size() && distinct.size() < kDistinct; at += width)
    distinct.insert(std::string_view(bytes).substr(at, width));
  return distinct.size() < kDistinct ? std::string() : bytes;
}

// Finds a rank's file saved again under another rank's name.
Status CheckNoneTwice(const std::vector<OptimizerFile>& ranks) {
  std::map<std::string, int> seen;
  for (size_t r = 0; r < ranks.size(); ++r) {
    NXDKIT_ASSIGN(std::string beginning, BeginningOf(ranks[r]));
    if (beginning.empty()) continue;
    const auto [first, added] = seen.emplace(std::move(beginning), static_cast<int>(r));
    if (!added)
      return Corrupt("ranks {} and {} have the same master weights", first->second, r)
          .rank(static_cast<int64_t>(r))
          .hint("one of the two files is the other rank's");
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<OptimizerFile>> ReadRankOptimizers(TagState& tag) {
  const auto& files = tag.files.optimizers;
  NXDKIT_ASSIGN(const torch::Archive archive,
                tag.entries.Read(files.begin()->second, files.begin()->first));
  NXDKIT_ASSIGN(const OptimizerFile head, ReadOptimizerFile(archive).in(archive.path));
  NXDKIT_ASSIGN(const int world, WorldOf(tag, head).in(archive.path));
  NXDKIT_TRY(CheckRanks(files, world, "optimizer's", tag.out.warnings).in(tag.files.path));
  std::vector<OptimizerFile> ranks = {head};
  for (int rank = 1; rank < world; ++rank) {
    NXDKIT_ASSIGN(const torch::Archive read, tag.entries.Read(files.at(rank), rank));
    NXDKIT_ASSIGN(OptimizerFile file, ReadOptimizerFile(read).in(read.path));
    NXDKIT_TRY(CheckAgrees(head, file, rank).in(read.path));
    ranks.push_back(std::move(file));
  }
  NXDKIT_TRY(CheckNoneTwice(ranks).in(tag.files.path));
  tag.facts.world = world;
  tag.facts.stage = head.stage;
  tag.facts.form = head.says_stage || head.stage == 3 ? fmt::format("ZeRO stage {}", head.stage)
                                                      : "BF16_Optimizer";
  return ranks;
}

Result<Partition> PartitionOf(const TagState& tag, const std::vector<OptimizerFile>& ranks) {
  if (!tag.model().groups)
    return Corrupt("there is no param_shapes, which lists the contents of the flat groups")
        .in(tag.ModelPath());
  return PartitionOf(*tag.model().groups, ranks).in(tag.files.path);
}

Status AddMasters(TagState& tag, const std::vector<OptimizerFile>& ranks, const Place& place,
                  const std::string& key) {
  return tag.entries.AddRanges(tag.files.optimizers, place, key, [&](int rank) {
    return &ranks[static_cast<size_t>(rank)].masters[place.group];
  });
}

namespace {

Status CheckLength(const GroupState& state, const StoredTensor& master, size_t group) {
  for (const auto& [name, tensor] : state.tensors)
    if (tensor.shape[0] < master.shape[0])
      return Unsupported(
                 "{} of group {} has {} elements, its master weights {}: it is not Adam's state",
                 name, group, tensor.shape[0], master.shape[0])
          .in(tensor.storage->path())
          .hint("--no-optimizer leaves the optimizer's state out");
  return OkStatus();
}

Status AddKept(TagState& tag, const std::vector<OptimizerFile>& ranks, const Place& place) {
  const GroupState& head = ranks.front().states[place.group];
  for (const auto& [name, tensor] : head.tensors)
    NXDKIT_TRY(tag.entries.AddRanges(
        tag.files.optimizers, place, StateKey(place.name, name), [&, &kept = name](int rank) {
          return &ranks[static_cast<size_t>(rank)].states[place.group].tensors.at(kept);
        }));
  if (!head.step || head.tensors.empty()) return OkStatus();
  return tag.entries.AddStep(tag.files.optimizers.at(0), place.name, *head.step);
}

}  // namespace

Status AddKeptState(TagState& tag, const Partition& partition,
                    const std::vector<OptimizerFile>& ranks) {
  const OptimizerFile& head = ranks.front();
  for (const OptimizerFile& rank : ranks)
    for (size_t g = 0; g < rank.states.size() && g < rank.masters.size(); ++g)
      NXDKIT_TRY(CheckLength(rank.states[g], rank.masters[g], g));
  for (const Place& place : partition.places) {
    const size_t g = place.group;
    if (g < head.states.size()) NXDKIT_TRY(AddKept(tag, ranks, place));
    const size_t options = head.group_of[g];
    if (options < head.options.size())
      NXDKIT_TRY(tag.entries.AddOptions(place.name, head.options[options]));
  }
  return OkStatus();
}

}  // namespace nxdkit::zero
