#include "tools/env/places.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <optional>

#include "formats/compile_cache/place.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/mount.h"
#include "lib/system/process.h"

namespace nxdkit::tool {
namespace {

struct Place {
  std::string what;
  std::string path;
};

struct Room {
  uint64_t free = 0, whole = 0;  // bytes
};

std::optional<Room> RoomAt(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(NearestExisting(path).c_str(), &info) != 0) return std::nullopt;
  return Room{uint64_t{info.f_bavail} * info.f_frsize, uint64_t{info.f_blocks} * info.f_frsize};
}

// A cache that is disabled, in an object store, or has unreadable flags has no place.
std::optional<std::string> CachePath() {
  const auto cache = neff::FindCache(std::nullopt, EnvironmentValue("NEURON_CC_FLAGS"),
                                     EnvironmentValue("NEURON_COMPILE_CACHE_URL"));
  if (!cache.ok() || cache->root.find("://") != cache->root.npos) return std::nullopt;
  return cache->root;
}

std::vector<Place> PlacesOf(const std::vector<std::string>& paths) {
  std::vector<Place> places;
  for (const std::string& path : paths) places.push_back({"path", path});
  if (!places.empty()) return places;
  if (const auto cache = CachePath()) places.push_back({"compile cache", *cache});
  const std::string temporary = EnvironmentValue("TMPDIR");
  places.push_back({"temporary", temporary.empty() ? "/tmp" : temporary});
  places.push_back({"current", "."});
  return places;
}

std::string MountText(const Mount& mount, const std::optional<Room>& room,
                      const std::vector<std::string>& lacks) {
  std::string text = mount.type.empty() ? "an unknown file system" : mount.type;
  if (!mount.source.empty()) text += " of " + ShortName(mount.source);
  if (!mount.options.empty()) text += fmt::format(" ({})", ShortName(mount.options));
  if (IsShared(mount)) text += ", shared with other machines";
  if (room) text += fmt::format(", {} free of {}", HumanBytes(room->free), HumanBytes(room->whole));
  if (!lacks.empty()) text += fmt::format("; it lacks: {}", fmt::join(lacks, "; "));
  return text;
}

}  // namespace

Section PlacesSection(const std::vector<std::string>& paths) {
  Section section;
  section.json = Json::array();
  for (const Place& place : PlacesOf(paths)) {
    const Result<std::string> real = RealPath(place.path);
    const std::string path = real.ok() ? *real : place.path;
    const Mount mount = MountOf(path);
    const std::optional<Room> room = RoomAt(path);
    const std::vector<std::string> lacks = Lacks(mount);
    const bool there = KindForHint(path) != PathKind::kMissing;
    section.Add(
        place.what,
        fmt::format("{}: {}{}", path,
                    there ? "" : "missing; for its nearest folder " + NearestExisting(path) + ": ",
                    MountText(mount, room, lacks)));
    section.json.push_back({{"what", place.what},
                            {"path", path},
                            {"exists", there},
                            {"type", TextOrNull(mount.type)},
                            {"source", TextOrNull(mount.source)},
                            {"mounted_at", TextOrNull(mount.folder)},
                            {"options", TextOrNull(mount.options)},
                            {"shared", IsShared(mount)},
                            {"free_bytes", room ? Json(room->free) : Json()},
                            {"bytes", room ? Json(room->whole) : Json()},
                            {"lacks", lacks}});
  }
  return section;
}

}  // namespace nxdkit::tool
