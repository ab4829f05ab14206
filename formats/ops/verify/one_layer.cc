#include "formats/ops/verify/one_layer.h"

#include <fmt/core.h>

#include <numeric>
#include <optional>

#include "formats/models/rank_tensors.h"

namespace nxdkit::ops {
namespace {

using models::Param;

bool IsLike(const Param& first, const Param& other) {
  return first.shape == other.shape && first.role == other.role && first.expert == other.expert &&
         first.axis == other.axis && InLayer(first.name, other.layer) == other.name;
}

// For each parameter of the whole model, the first layer's, if the layers are alike.
std::optional<std::vector<uint32_t>> Stands(const models::Model& whole,
                                            const std::vector<uint32_t>& kept) {
  std::vector<uint32_t> first;  // of the kept ones, those of the first layer
  for (uint32_t k = 0; k < kept.size(); ++k)
    if (whole.params[kept[k]].layer == 0) first.push_back(k);
  std::vector<uint32_t> of(whole.params.size());
  for (uint32_t k = 0; k < kept.size(); ++k) of[kept[k]] = k;
  std::vector<size_t> seen(static_cast<size_t>(whole.config.layers));  // parameters, by layer
  for (uint32_t i = 0; i < whole.params.size(); ++i) {
    const Param& param = whole.params[i];
    if (param.layer < 0) continue;
    if (static_cast<size_t>(param.layer) >= seen.size()) return std::nullopt;
    const size_t at = seen[static_cast<size_t>(param.layer)]++;
    if (at >= first.size() || !IsLike(whole.params[kept[first[at]]], param)) return std::nullopt;
    of[i] = first[at];
  }
  for (const size_t count : seen)
    if (count != first.size()) return std::nullopt;
  return of;
}

}  // namespace

OneLayer FirstOfLayers(const models::Model& whole) {
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < whole.params.size(); ++i)
    if (whole.params[i].layer <= 0) kept.push_back(i);
  std::optional<std::vector<uint32_t>> of = Stands(whole, kept);
  if (!of) {
    OneLayer all{whole, std::vector<uint32_t>(whole.params.size()), 1};
    std::iota(all.of.begin(), all.of.end(), 0);
    return all;
  }
  OneLayer one{{whole.config, {}, whole.cuts, whole.carried}, *std::move(of), whole.config.layers};
  one.model.config.layers = 1;
  for (const uint32_t i : kept) one.model.params.push_back(whole.params[i]);
  return one;
}

std::string InLayer(const std::string& name, int64_t layer) {
  return models::Replaced(name, "layers.0.", fmt::format("layers.{}.", layer));
}

}  // namespace nxdkit::ops
