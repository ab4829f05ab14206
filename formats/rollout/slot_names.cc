#include "formats/rollout/slot_names.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "formats/rollout/adoption.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"

namespace nxdkit::rollout {
namespace {

constexpr std::string_view kSlotPrefix = ".weights.";

}  // namespace

std::optional<uint32_t> SlotNumber(std::string_view name) {
  if (!name.starts_with(kSlotPrefix)) return std::nullopt;
  name.remove_prefix(kSlotPrefix.size());
  const std::optional<uint32_t> number = ParseNumber<uint32_t>(name);
  return number && std::to_string(*number) == name ? number : std::nullopt;
}

std::string TargetPath(const std::string& weights, const std::string& target) {
  if (target.empty()) return weights;
  return target.starts_with('/') ? target : JoinPath(ParentPath(weights), target);
}

bool LeadsTo(const std::string& weights, const std::string& slot) {
  const Result<std::string> target = ReadLink(weights);
  return target.ok() && *target == BaseName(slot);
}

Result<std::string> Resolve(const std::string& weights) {
  NXDKIT_ASSIGN(const std::string target, ReadLink(weights));
  if (!target.empty()) return TargetPath(weights, target);
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(weights));
  if (info.kind != PathKind::kMissing) return weights;
  NXDKIT_ASSIGN(const std::optional<std::string> away, AdoptedAway(weights));
  return away.value_or(weights);
}

Result<std::vector<std::string>> ListSlots(const std::string& weights) {
  const std::string parent = ParentPath(weights);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(parent));
  std::vector<std::string> slots;
  for (const std::string& name : names) {
    if (!SlotNumber(name)) continue;
    const std::string path = JoinPath(parent, name);
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
    if (info.kind == PathKind::kFolder) slots.push_back(path);
  }
  std::ranges::sort(slots, {}, [](const std::string& path) { return SlotNumber(BaseName(path)); });
  return slots;
}

Result<std::string> NewSlot(const std::string& weights) {
  const std::string parent = ParentPath(weights);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(parent));
  uint32_t next = 0;
  const auto above = [&](std::string_view name) {
    if (const auto number = SlotNumber(name)) next = std::max(next, *number + 1);
  };
  for (const std::string& name : names) above(name);
  NXDKIT_ASSIGN(const std::string target, ReadLink(weights));
  above(target);
  return JoinPath(parent, fmt::format("{}{}", kSlotPrefix, next));
}

Status PointTo(const std::string& weights, const std::string& slot, bool sync) {
  const std::string parent = ParentPath(weights);
  const std::string next = JoinPath(parent, fmt::format("{}next-{}", kSlotPrefix, RandomNumber()));
  if (::symlink(BaseName(slot).c_str(), next.c_str()) != 0)
    return OutputError("create the link", errno).in(next);
  if (::rename(next.c_str(), weights.c_str()) != 0) {
    const int failure = errno;
    ::unlink(next.c_str());
    // If NFS lost the reply, the rename was done, and the retry fails.
    if (!LeadsTo(weights, slot))
      return OutputError(fmt::format("rename {} to it", next), failure).in(weights);
  }
  return sync ? SyncFolder(parent) : OkStatus();
}

}  // namespace nxdkit::rollout
