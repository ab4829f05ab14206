// PRIVATE to formats/rollout: the names next to a bundle's weights, and the target of the link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::rollout {

inline constexpr std::string_view kWeightsName = "weights";
inline constexpr char kHalfDone[] = ".incomplete";  // in a slot that is not whole

// ".weights.7" -> 7; nullopt: not the name of a slot.
std::optional<uint32_t> SlotNumber(std::string_view name);

// Where the link `weights` with the text `target` leads; `weights` itself if that is "": no link.
std::string TargetPath(const std::string& weights, const std::string& target);
bool LeadsTo(const std::string& weights, const std::string& slot);
// Where `weights` leads: a path that no rename of the link changes. The folder itself while it is a
// plain one; and its new name when a killed adoption (adoption.h) left `weights` missing.
Result<std::string> Resolve(const std::string& weights);

// The paths of the slots next to `weights`, by number: folders only, not links.
Result<std::vector<std::string>> ListSlots(const std::string& weights);
// The next number: above all existing ones, so that no path ever leads to two versions.
Result<std::string> NewSlot(const std::string& weights);

// Makes `weights`, a link or nothing, a link to the slot, by one rename; `sync`: synced.
Status PointTo(const std::string& weights, const std::string& slot, bool sync);

}  // namespace nxdkit::rollout
