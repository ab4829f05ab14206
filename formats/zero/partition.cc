#include "formats/zero/partition.h"

#include <algorithm>

#include "lib/base/checked.h"
#include "lib/base/errors.h"

namespace nxdkit::zero {
namespace {

using Groups = std::vector<std::vector<NamedShape>>;

constexpr char kCause[] =
    "the files may be of two saves, or parameter_alignment was on and is not recorded";

Result<int64_t> Sum(const std::vector<NamedShape>& shapes, const std::vector<int64_t>& holes) {
  std::optional<int64_t> sum = 0;
  const auto add = [&](int64_t count) { sum = sum ? CheckedAdd(*sum, count) : sum; };
  for (const NamedShape& each : shapes) add(*ElementCount(each.shape));
  for (const int64_t hole : holes) add(hole);
  if (!sum) return Corrupt("param_shapes have more than 2^63 elements");
  return *sum;
}

class Flattener {
 public:
  Flattener(const Groups& groups, const std::vector<OptimizerFile>& ranks)
      : groups_(groups), ranks_(ranks), world_(static_cast<int64_t>(ranks.size())) {}

  Result<Partition> Run() {
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].masters.size() != groups_.size())
        return Corrupt("rank {} has {} flat groups, and param_shapes {}", r,
                       ranks_[r].masters.size(), groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g)
      NXDKIT_TRY(ranks_.front().stage == 3 ? AddGroup3(g) : AddGroup12(g));
    return std::move(out_);
  }

 private:
  int64_t Length(size_t rank, size_t group) const { return ranks_[rank].masters[group].shape[0]; }

  // Stages 1 and 2 have one flat tensor, of which rank r has [r * part, (r + 1) * part); the last
  // ranks may have less, or nothing.
  Status AddGroup12(size_t g) {
    const std::vector<int64_t> none;
    const auto& all_holes = ranks_.front().holes;
    const std::vector<int64_t>& holes = g < all_holes.size() ? all_holes[g] : none;
    if (!holes.empty() && holes.size() != groups_[g].size())
      return Corrupt("param_alignment_paddings has {} numbers for the {} parameters of group {}",
                     holes.size(), groups_[g].size(), g);
    NXDKIT_ASSIGN(const int64_t all, Sum(groups_[g], holes));
    NXDKIT_ASSIGN(const int64_t part, PartLength(g));
    out_.lengths.emplace_back();
    int64_t found = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const auto before = CheckedMul(part, static_cast<int64_t>(r));
      const int64_t lean = before ? std::clamp<int64_t>(all - *before, 0, part) : 0;
      const int64_t length = Length(r, g);
      found += std::min(length, part);
      if (length != lean && length != part) return DoNotAddUp(g, r, length, lean, all, part);
      out_.lengths.back().push_back(lean);
      out_.padding += part - lean;
    }
    const auto room = CheckedMul(part, world_);
    if (!room || *room < all)
      return Corrupt("the flat group {} of {} ranks has {} elements, param_shapes need {}", g,
                     world_, found, all)
          .hint(kCause);
    AddPlaces12(g, holes, part);
    return OkStatus();
  }

  Error DoNotAddUp(size_t g, size_t rank, int64_t length, int64_t lean, int64_t all, int64_t part) {
    return Corrupt(
               "rank {} has {} elements of the flat group {}, expected {} (param_shapes have {} in "
               "all) or {} with padding",
               rank, length, g, lean, all, part)
        .rank(static_cast<int64_t>(rank))
        .hint(kCause);
  }

  // The length of a rank's part with padding: that of the moments, or the length that a rank
  // records.
  Result<int64_t> PartLength(size_t g) const {
    int64_t part = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const OptimizerFile& rank = ranks_[r];
      part = std::max(part, Length(r, g));
      if (g < rank.states.size())
        for (const auto& [name, tensor] : rank.states[g].tensors)
          part = std::max(part, tensor.shape[0]);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (g >= ranks_[r].paddings.size()) continue;
      const int64_t padding = ranks_[r].paddings[g];
      const int64_t length = Length(r, g);
      if (padding > INT64_MAX / 2 || (length + padding != part && length != part))
        return Corrupt(
                   "rank {} has {} elements of the flat group {} and says {} of padding, the "
                   "others have {}",
                   r, length, g, padding, part)
            .rank(static_cast<int64_t>(r));
    }
    return part;
  }

  void AddPlaces12(size_t g, const std::vector<int64_t>& holes, int64_t part) {
    int64_t at = 0;  // in the group of all ranks
    for (size_t i = 0; i < groups_[g].size(); ++i) {
      const NamedShape& shape = groups_[g][i];
      const int64_t count = *ElementCount(shape.shape);
      Place place{shape.name, shape.shape, g, {}};
      for (int64_t first = 0; first < count;) {
        const int64_t rank = (at + first) / part;
        const int64_t in_rank = at + first - rank * part;
        const int64_t here = std::min(count - first, part - in_rank);
        place.ranges.push_back({static_cast<int>(rank), in_rank, first, here});
        first += here;
      }
      out_.elements += count;
      at += count;
      if (!holes.empty()) {
        at += holes[i];
        out_.padding += holes[i];
      }
      out_.places.push_back(std::move(place));
    }
  }

  // Stage 3 cuts every parameter into equal parts; a rank has its parts one after another.
  Status AddGroup3(size_t g) {
    std::optional<int64_t> at = 0;
    for (const NamedShape& shape : groups_[g]) {
      const int64_t count = *ElementCount(shape.shape);
      const int64_t part = PartOf(count, world_);
      if (!CheckedAdd(*at, part) || !CheckedMul(part, world_))
        return Corrupt("param_shapes have more than 2^63 elements");
      out_.places.push_back(
          {shape.name, shape.shape, g, RangesAt(*at, count, static_cast<int>(world_))});
      out_.elements += count;
      out_.padding += part * world_ - count;
      at = *at + part;
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (Length(r, g) != *at)
        return Corrupt(
                   "rank {} has {} elements of the flat group {}, the parts of its {} parameters "
                   "have {}",
                   r, Length(r, g), g, groups_[g].size(), *at)
            .rank(static_cast<int64_t>(r))
            .hint("the files may be of two saves");
    return OkStatus();
  }

  const Groups& groups_;
  const std::vector<OptimizerFile>& ranks_;
  int64_t world_;
  Partition out_;
};

}  // namespace

std::vector<Range> RangesAt(int64_t at, int64_t count, int world) {
  const int64_t part = PartOf(count, world);
  std::vector<Range> ranges;
  for (int rank = 0; rank < world && rank * part < count; ++rank)
    ranges.push_back({rank, at, rank * part, std::min(part, count - rank * part)});
  return ranges;
}

Result<Partition> PartitionOf(const Groups& groups, const std::vector<OptimizerFile>& ranks) {
  return Flattener(groups, ranks).Run();
}

}  // namespace nxdkit::zero
