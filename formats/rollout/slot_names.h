// PRIVATE to formats/rollout: the names beside a bundle's weights, and where the link leads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::rollout {

inline constexpr std::string_view kWeightsName = "weights";
inline constexpr char kHalfDone[] = ".incomplete";  // in a slot: not a whole version

// ".weights.7" -> 7; nullopt: not the name of a slot.
std::optional<uint32_t> SlotNumber(std::string_view name);

// Where the link `weights`, which says `target`, leads; `weights` where that is "": no link.
std::string TargetPath(const std::string& weights, const std::string& target);
bool LeadsTo(const std::string& weights, const std::string& slot);
// Where `weights` leads: a path that no rename of the link changes. The folder itself while that is
// a plain one; and what it was named when a killed adoption (adoption.h) left `weights` missing.
Result<std::string> Resolve(const std::string& weights);

// Of the folders, not the links, beside `weights` that are slots: paths, by number.
Result<std::vector<std::string>> ListSlots(const std::string& weights);
// The next number: above all that are there, so that no path ever leads to two versions.
Result<std::string> NewSlot(const std::string& weights);

// Makes `weights`, a link or nothing, a link to the slot. By one rename; `sync`: on the disk.
Status PointTo(const std::string& weights, const std::string& slot, bool sync);

}  // namespace nxdkit::rollout
