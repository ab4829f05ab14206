#include "formats/rollout/adoption.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "formats/rollout/slot_names.h"
#include "formats/rollout/weights_version.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

constexpr char kIntentName[] = ".weights.adopt";
constexpr uint64_t kMaxIntentBytes = 64;

std::string IntentOf(const std::string& weights) {
  return JoinPath(ParentPath(weights), kIntentName);
}

// The slot that an intent names; nullopt if there is none, or its text is something else.
Result<std::optional<std::string>> IntendedSlot(const std::string& weights) {
  const Result<std::string> name = ReadSmallFile(IntentOf(weights), kMaxIntentBytes);
  if (!name.ok() && name.error().code() == Errc::kIo) return name.error();
  if (!name.ok() || !SlotNumber(*name)) return std::optional<std::string>();
  return std::optional(JoinPath(ParentPath(weights), *name));
}

Status DropIntent(const std::string& weights, bool sync) {
  const std::string intent = IntentOf(weights);
  if (::unlink(intent.c_str()) != 0 && errno != ENOENT)
    return OutputError("remove", errno).in(intent);
  return sync ? SyncFolder(ParentPath(weights)) : OkStatus();
}

// 0, or why the file system cannot do it. The link points to its own name, which is the folder's
// once the two are exchanged.
int ExchangeWithALink(const std::string& weights, const std::string& slot) {
  if (::symlink(BaseName(slot).c_str(), slot.c_str()) != 0) return errno;
  if (::renameat2(AT_FDCWD, slot.c_str(), AT_FDCWD, weights.c_str(), RENAME_EXCHANGE) == 0)
    return 0;
  const int failure = errno;
  ::unlink(slot.c_str());
  return failure;
}

Error FromAnImage(const std::string& weights) {
  return Unsupported(
             "this folder cannot be renamed: it comes from a lower layer of an overlay (a "
             "container image)")
      .in(weights)
      .hint(
          "make the bundle outside the image; or, while no engine reads it: cp -a weights "
          ".weights.0 && rm -r weights && ln -s .weights.0 weights");
}

Status AdoptInSteps(const std::string& weights, const std::string& slot, bool sync) {
  NXDKIT_TRY(WriteFileAtomic(IntentOf(weights), BaseName(slot)));
  if (::rename(weights.c_str(), slot.c_str()) != 0) {
    const int failure = errno;
    NXDKIT_TRY(DropIntent(weights, sync));
    if (failure == EXDEV) return FromAnImage(weights);
    return OutputError(fmt::format("rename it to {}", BaseName(slot)), failure).in(weights);
  }
  NXDKIT_TRY(PointTo(weights, slot, sync));
  return DropIntent(weights, sync);
}

}  // namespace

Result<std::optional<std::string>> NewestWhole(const std::string& weights) {
  NXDKIT_ASSIGN(const std::vector<std::string> slots, ListSlots(weights));
  std::optional<std::string> newest;
  int64_t best = -1;
  for (const std::string& slot : slots) {
    NXDKIT_ASSIGN(const bool half_done, IsThere(JoinPath(slot, kHalfDone)));
    if (half_done) continue;
    const auto version = ReadVersion(slot);
    if (!version.ok() && version.error().code() == Errc::kIo) return version.error();
    if (!version.ok()) continue;
    const int64_t serial = *version ? (*version)->serial : 0;
    if (serial < best) continue;
    best = serial;
    newest = slot;
  }
  return newest;
}

Result<Adopted> Adopt(const std::string& weights, bool sync) {
  NXDKIT_ASSIGN(const std::string slot, NewSlot(weights));
  const int failure = ExchangeWithALink(weights, slot);
  if (failure == 0 && sync) NXDKIT_TRY(SyncFolder(ParentPath(weights)));
  if (failure == 0) return Adopted{slot};
  if (failure != EINVAL && failure != ENOSYS && failure != EOPNOTSUPP && failure != EXDEV)
    return OutputError("exchange it for a link", failure).in(weights);
  NXDKIT_TRY(AdoptInSteps(weights, slot, sync));
  return Adopted{slot, true};
}

Result<std::optional<std::string>> AdoptedAway(const std::string& weights) {
  NXDKIT_ASSIGN(std::optional<std::string> slot, IntendedSlot(weights));
  if (!slot) return slot;
  NXDKIT_ASSIGN(const bool folder, IsFolder(*slot));
  return folder ? slot : std::optional<std::string>();
}

Result<std::string> Repair(const std::string& weights, bool sync) {
  NXDKIT_ASSIGN(const std::optional<std::string> away, AdoptedAway(weights));
  // A dangling link is repaired below, like a missing one.
  NXDKIT_ASSIGN(const std::string target, ReadLink(weights));
  NXDKIT_ASSIGN(const bool there, IsThere(TargetPath(weights, target)));
  if (there) {
    NXDKIT_ASSIGN(const bool left, IsThere(IntentOf(weights)));
    if (left) NXDKIT_TRY(DropIntent(weights, sync));
    return std::string();
  }
  if (away) {
    NXDKIT_TRY(PointTo(weights, *away, sync));
    NXDKIT_TRY(DropIntent(weights, sync));
    return fmt::format("completed the work of a killed run: weights leads to {}", BaseName(*away));
  }
  NXDKIT_ASSIGN(const bool has_parent, IsFolder(ParentPath(weights)));
  if (!has_parent) return std::string();
  NXDKIT_ASSIGN(const std::optional<std::string> newest, NewestWhole(weights));
  if (!newest) return std::string();
  NXDKIT_TRY(PointTo(weights, *newest, sync));
  return fmt::format("weights was missing; it leads to the newest whole version now, {}",
                     BaseName(*newest));
}

}  // namespace nxdkit::rollout
