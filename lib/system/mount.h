// The file system of a path, according to the kernel's table of mounts. Whether an operation works
// is found out by trying it; this is for messages, and for the one question that cannot be tried:
// whether programs on other machines may read the same files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit {

struct Mount {
  std::string type;     // "ext4", "nfs4", "lustre", "fuse.bindfs"; "" when the table does not say
  std::string source;   // "/dev/sda1", "fs-1.efs.us-east-1.amazonaws.com:/"
  std::string folder;   // the mount point
  std::string options;  // of the mount, then of the file system: "rw,noatime,vers=4.1"

  bool Has(std::string_view option) const;  // "flock"; "vers=" asks for any value
};

// The mount of the path, or of its nearest existing parent. In a chroot the table may not have it:
// then only the type is known, by statfs(2).
Mount MountOf(const std::string& path);
// The mount according to a table like /proc/self/mountinfo.
Mount MountIn(const std::string& table, const std::string& path);

// Whether other machines, or other mounts on this one, may have the same files: true for all but
// the types that are known to belong to one kernel. Their locks, leases and caches are not ours.
bool IsShared(const Mount& mount);

// The operations used elsewhere that it does not support, or applies late; one short phrase each.
// Sources: the rename(2), flock(2), nfs(5) and mount.lustre(8) manual pages.
std::vector<std::string> Lacks(const Mount& mount);

}  // namespace nxdkit
