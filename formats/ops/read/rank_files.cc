#include "formats/ops/read/rank_files.h"

#include <fmt/format.h>

#include <set>

#include "formats/ops/read/seen_shape.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

// One way in which files belong to ranks.
struct RankAxis {
  std::string_view name;
  int64_t asked;
  int64_t (*of)(const LayoutFile& file);  // -1: no rank

  bool Has(const LayoutFile& file) const { return of(file) < 0 || of(file) == asked; }
};

std::vector<RankAxis> AxesOf(const RankPlace& place) {
  return {{"rank", place.tp,
           [](const LayoutFile& file) { return file.writer >= 0 ? file.writer : file.tp_rank; }},
          {"pp rank", place.pp, [](const LayoutFile& file) { return file.pp_rank; }},
          {"ep rank", place.ep, [](const LayoutFile& file) { return file.ep_rank; }}};
}

std::string RanksText(const std::set<int64_t>& ranks) {
  const int64_t first = *ranks.begin();
  const int64_t last = *ranks.rbegin();
  if (first == last) return fmt::format("{} alone", first);
  if (last - first + 1 == static_cast<int64_t>(ranks.size()))
    return fmt::format("{} to {}", first, last);
  return fmt::format("{}", fmt::join(ranks, ", "));
}

Status CheckAxis(const RankAxis& axis, const Layout& layout) {
  std::set<int64_t> ranks;
  for (const LayoutFile& file : layout.files)
    if (axis.of(file) >= 0) ranks.insert(axis.of(file));
  if (ranks.empty()) ranks.insert(0);
  if (ranks.contains(axis.asked)) return OkStatus();
  return BadUsage("{} {}: the layout has {}", axis.name, axis.asked, RanksText(ranks));
}

// Gives each tensor its shape in the file, if that joins dimensions of the layout.
void TakeSeenShapes(OutputPlan& output) {
  std::vector<size_t> next(output.files.size(), 0);
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    const uint32_t file = output.layout.tensors[t].file;
    const std::vector<OutputTensor>& seen = output.files[file].encoder->tensors();
    const size_t at = next[file]++;
    if (at < seen.size() && JoinsDimensions(output.outputs[t].shape, seen[at].shape))
      output.outputs[t].shape = seen[at].shape;
  }
}

}  // namespace

Result<RankTensors> TensorsOfPlace(OutputPlan output, RankPlace place) {
  const std::vector<RankAxis> axes = AxesOf(place);
  for (const RankAxis& axis : axes) NXDKIT_TRY(CheckAxis(axis, output.layout));
  TakeSeenShapes(output);
  RankTensors out;
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    TensorLayout& tensor = output.layout.tensors[t];
    bool is_here = true;
    for (const RankAxis& axis : axes) is_here &= axis.Has(output.layout.files[tensor.file]);
    if (!is_here) continue;
    out.layout.tensors.push_back(std::move(tensor));
    out.outputs.push_back(std::move(output.outputs[t]));
  }
  out.layout.files = std::move(output.layout.files);
  return out;
}

}  // namespace nxdkit::ops
