// The option words for the types of the formats.
#pragma once

#include <optional>
#include <string>

#include "formats/dcp/options.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/nxd/param_order.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit {

inline std::string Word(nxd::QkvStyle style) { return std::string(nxd::QkvStyleName(style)); }
inline std::string Word(nxd::NameStyle style) { return std::string(nxd::NameStyleName(style)); }
inline std::string Word(nxd::GroupRule rule) { return std::string(nxd::GroupRuleName(rule)); }
inline std::string Word(models::Hardware hw) { return std::string(models::HardwareName(hw)); }
inline std::string Word(rollout::Flavor flavor) { return std::string(FlavorName(flavor)); }
inline std::string Word(dcp::Style style) { return std::string(dcp::StyleName(style)); }
inline std::string Word(const dcp::Mesh& mesh) {
  return "dp=" + std::to_string(mesh.dp) + ",tp=" + std::to_string(mesh.tp);
}
template <typename T>
std::optional<std::string> Word(const std::optional<T>& named) {
  return named ? std::optional(Word(*named)) : std::nullopt;
}

}  // namespace nxdkit
