#include "formats/rollout/slot_names.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

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

std::string SlotName(uint32_t number) { return fmt::format("{}{}", kSlotPrefix, number); }

bool IsLink(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

Result<std::string> ReadLink(const std::string& path) {
  std::error_code failure;
  std::string target = std::filesystem::read_symlink(path, failure).string();
  if (failure) return SystemError("read the link", failure.value()).in(path);
  return target;
}

bool LeadsTo(const std::string& weights, const std::string& slot) {
  const Result<std::string> target = ReadLink(weights);
  return target.ok() && *target == BaseName(slot);
}

Result<std::string> Resolve(const std::string& weights) {
  if (IsLink(weights)) {
    const Result<std::string> target = ReadLink(weights);
    if (!target.ok() || target->starts_with('/')) return target;
    return JoinPath(ParentPath(weights), *target);
  }
  if (KindOf(weights) != PathKind::kMissing) return weights;
  return AdoptedAway(weights).value_or(weights);
}

Result<std::vector<std::string>> ListSlots(const std::string& weights) {
  const std::string parent = ParentPath(weights);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(parent));
  std::vector<std::string> slots;
  for (const std::string& name : names)
    if (const std::string path = JoinPath(parent, name);
        SlotNumber(name) && !IsLink(path) && KindOf(path) == PathKind::kFolder)
      slots.push_back(path);
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
  if (IsLink(weights)) {
    NXDKIT_ASSIGN(const std::string target, ReadLink(weights));
    above(target);
  }
  return JoinPath(parent, SlotName(next));
}

Status PointTo(const std::string& weights, const std::string& slot, bool sync) {
  const std::string parent = ParentPath(weights);
  const std::string next = JoinPath(parent, fmt::format("{}next-{}", kSlotPrefix, RandomNumber()));
  if (::symlink(BaseName(slot).c_str(), next.c_str()) != 0)
    return OutputError("create the link", errno).in(next);
  if (::rename(next.c_str(), weights.c_str()) != 0) {
    const int failure = errno;
    ::unlink(next.c_str());
    // Where NFS lost the answer it did rename, and says of the second try that it failed.
    if (!LeadsTo(weights, slot))
      return OutputError(fmt::format("rename {} to it", next), failure).in(weights);
  }
  return sync ? SyncFolder(parent) : OkStatus();
}

}  // namespace nxdkit::rollout
