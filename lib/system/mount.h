// The file system that a path lies on, as the kernel's table of mounts names it. What an
// operation can do is found out by trying it; this is for messages, and for the one question that
// no try answers: whether programs of other machines may read the same files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit {

struct Mount {
  std::string type;     // "ext4", "nfs4", "lustre", "fuse.bindfs"; "" when the table does not say
  std::string source;   // "/dev/sda1", "fs-1.efs.us-east-1.amazonaws.com:/"
  std::string folder;   // where it is mounted
  std::string options;  // of the mount, then of the file system: "rw,noatime,vers=4.1"

  bool Has(std::string_view option) const;  // "flock"; "vers=" asks for any value
};

// Of the path, or of the nearest one above it that exists. In a chroot the table may not have it:
// then only the type is known, by statfs(2).
Mount MountOf(const std::string& path);
// As a table like /proc/self/mountinfo says.
Mount MountIn(const std::string& table, const std::string& path);

// Whether other machines, or other mounts on this one, may have the same files: all but the types
// that are known to belong to one kernel. Their locks, leases and caches are not ours.
bool IsShared(const Mount& mount);

// What it cannot do, or does late, of what we use elsewhere; one short phrase each. Sources: the
// rename(2), flock(2), nfs(5) and mount.lustre(8) manual pages.
std::vector<std::string> Lacks(const Mount& mount);

}  // namespace nxdkit
