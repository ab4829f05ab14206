#include "lib/system/mount.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit {
namespace {

constexpr std::array<std::string_view, 17> kOfOneMachine = {
    "bcachefs", "btrfs", "devtmpfs", "erofs",  "ext2",  "ext3", "ext4", "f2fs", "jfs",
    "overlay",  "ramfs", "reiserfs", "rootfs", "tmpfs", "vfat", "xfs",  "zfs"};

// "\040" is a space: three octal digits for characters that would end a field.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t k) { return i + k < text.size() ? text[i + k] - '0' : -1; };
    const bool octal = text[i] == '\\' && digit(1) >= 0 && digit(1) < 4 && digit(2) >= 0 &&
                       digit(2) < 8 && digit(3) >= 0 && digit(3) < 8;
    plain += octal ? static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3)) : text[i];
    if (octal) i += 3;
  }
  return plain;
}

// "36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/root rw,errors=continue" (proc(5)).
Mount ParseRow(const std::string& row) {
  std::istringstream words(row);
  std::string word, folder, options;
  for (int i = 0; i < 4; ++i) words >> word;
  words >> folder >> options;
  while (words >> word && word != "-") {
  }
  Mount mount;
  std::string source, more;
  if (!(words >> mount.type >> source)) return {};
  words >> more;
  mount.source = Unescaped(source);
  mount.folder = Unescaped(folder);
  mount.options = more.empty() ? options : options + "," + more;
  return mount;
}

// Covers the types that belong to one machine; "" for any other.
std::string TypeByNumber(const std::string& path) {
  constexpr std::pair<unsigned long, const char*> kTypes[] = {{EXT4_SUPER_MAGIC, "ext4"},
                                                              {XFS_SUPER_MAGIC, "xfs"},
                                                              {BTRFS_SUPER_MAGIC, "btrfs"},
                                                              {TMPFS_MAGIC, "tmpfs"},
                                                              {OVERLAYFS_SUPER_MAGIC, "overlay"}};
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return "";
  for (const auto& [number, type] : kTypes)
    if (static_cast<unsigned long>(info.f_type) == number) return type;
  return "";
}

bool Contains(const std::string& folder, const std::string& path) {
  return folder == "/" || path == folder || path.starts_with(folder + "/");
}

}  // namespace

bool Mount::Has(std::string_view option) const {
  for (const std::string_view word : Split(options, ','))
    if (option.ends_with('=') ? word.starts_with(option) : word == option) return true;
  return false;
}

Mount MountOf(const std::string& path) {
  Mount mount = MountIn("/proc/self/mountinfo", path);
  if (mount.type.empty()) mount.type = TypeByNumber(NearestExisting(path));
  return mount;
}

Mount MountIn(const std::string& table, const std::string& path) {
  const std::string there = NearestExisting(path);
  const Result<std::string> resolved = RealPath(there);
  const std::string& real = resolved.ok() ? *resolved : there;  // only for warnings
  Mount found;
  std::ifstream rows(table);
  for (std::string row; std::getline(rows, row);) {
    Mount mount = ParseRow(row);
    // If two are mounted at one place, the later one is visible.
    if (Contains(mount.folder, real) && mount.folder.size() >= found.folder.size() &&
        !mount.type.empty())
      found = std::move(mount);
  }
  return found;
}

bool IsShared(const Mount& mount) { return !std::ranges::count(kOfOneMachine, mount.type); }

std::vector<std::string> Lacks(const Mount& mount) {
  if (mount.type.starts_with("nfs"))
    return {"exchange of two names", "locks of folders",
            "other clients see new names and links up to a minute late"};
  if (mount.type == "lustre") {
    std::vector<std::string> lacks = {"exchange of two names"};
    if (mount.Has("localflock")) lacks.push_back("locks between machines (mounted localflock)");
    if (!mount.Has("flock") && !mount.Has("localflock")) lacks.push_back("locks (mount it flock)");
    return lacks;
  }
  if (mount.type.starts_with("fuse"))
    return {"exchange of two names", "locks between machines", "reserving space"};
  if (mount.type == "overlay")
    return {"renaming a folder that comes from the image (a lower layer)"};
  return {};
}

}  // namespace nxdkit
