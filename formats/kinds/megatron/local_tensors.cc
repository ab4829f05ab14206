#include "formats/kinds/megatron/local_tensors.h"

#include <algorithm>
#include <utility>

#include "formats/megatron/keys.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;

constexpr std::string_view kExperts = "mlp.experts.experts.";

bool IsGated(std::string_view name) { return name.ends_with("linear_fc1.weight"); }

// The number of ranks that the parts of one tensor are for: gate over up has two for each.
int64_t RanksOf(std::string_view name, size_t parts) {
  return static_cast<int64_t>(IsGated(name) ? parts / 2 : parts);
}

}  // namespace

LocalTensors::LocalTensors(const dcp::Folder& stored) {
  for (const dcp::StoredEntry& entry : stored.tensors) {
    const Key key = megatron::ParseKey(entry.key);
    if (key.kind != Key::Kind::kWeight) continue;
    const bool is_expert = key.name.starts_with(kExperts);
    for (const dcp::StoredChunk& chunk : entry.chunks) {
      size_t axis = 0;
      int64_t layer = key.mtp ? *key.mtp : key.layer.value_or(-1);
      if (key.in_layer && !key.layer && !key.mtp) layer = chunk.box.lo[axis++];
      int64_t expert = key.expert.value_or(-1);
      if (is_expert && !key.expert && axis < chunk.box.lo.size()) expert = chunk.box.lo[axis];
      experts_ = std::max(experts_, expert + 1);
      if (key.mtp) mtp_layers_ = std::max(mtp_layers_, *key.mtp + 1);
      pieces_[{key.name, layer, expert, key.mtp.has_value()}]
          .halves[key.half.value_or(0)]
          .push_back({&entry, &chunk});
    }
  }
  for (auto& [id, pieces] : pieces_) {
    for (auto& half : pieces.halves)
      std::ranges::sort(half, {}, [](const LocalPart& part) { return part.chunk->box.lo; });
    const std::string& name = std::get<0>(id);
    const size_t parts = pieces.halves[0].size() + pieces.halves[1].size();
    int64_t& ranks = name.starts_with(kExperts) ? expert_tp_ : tp_;
    ranks = std::max(ranks, RanksOf(name, parts));
  }
}

std::optional<LocalTensor> LocalTensors::Find(const Place& place, int64_t rank) const {
  for (const std::string_view name : {place.name, megatron::OtherName(place.name)}) {
    const auto found = pieces_.find({std::string(name), place.layer, place.expert, place.mtp});
    if (name.empty() || found == pieces_.end()) continue;
    std::vector<LocalPart> parts = found->second.halves[0];
    const auto& second = found->second.halves[1];
    parts.insert(parts.end(), second.begin(), second.end());
    const int64_t ranks = RanksOf(name, parts.size());
    const int64_t wanted = place.expert >= 0 ? expert_tp_ : tp_;
    if (ranks != 1 && ranks != wanted) return std::nullopt;
    const auto at = static_cast<size_t>(ranks == 1 ? 0 : rank);
    if (!IsGated(name)) return LocalTensor{parts[at]};
    if (parts.size() % 2 != 0) return std::nullopt;
    return LocalTensor{parts[at], parts[parts.size() / 2 + at]};
  }
  return std::nullopt;
}

}  // namespace nxdkit::kinds
