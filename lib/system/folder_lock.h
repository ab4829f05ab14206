// Advisory locks (flock) on folders: readers share one, who overwrites the contents takes it alone.
// A lock goes with the process that holds it, whatever ends it.
#pragma once

#include <string>

#include "lib/system/file.h"

namespace nxdkit {

// Whether this errno of flock says that there are no locks: Lustre without the flock option has
// none, nor has NFS for folders. Callers that can do without locks continue.
bool LocksAreMissing(int failure);

// A try to lock a folder. Move-only; the lock is released with the object.
class FolderLock {
 public:
  enum class Mode { kShared, kExclusive };
  enum class State {
    kHeld,
    kBusy,        // another process, or another object of this one, holds it otherwise
    kUnsupported  // the file system has no locks for folders (NFS, Lustre without flock)
  };

  // Does not wait. Symbolic links are followed. kNotFound when there is no such folder.
  static Result<FolderLock> Try(const std::string& path, Mode mode);

  State state() const { return state_; }
  // Whether `path` leads to the folder that was opened, now.
  bool IsAt(const std::string& path) const;
  // A path that leads to the folder that was opened, whatever its names are by now; good in this
  // process, while this lives and is not released. Not for messages.
  std::string HeldPath() const;
  void Release() { folder_ = File(); }

 private:
  FolderLock(File folder, State state) : folder_(std::move(folder)), state_(state) {}
  File folder_;
  State state_;
};

// Whether a file is in use by somebody who takes no lock: an open descriptor or a memory mapping,
// of any process of this machine, this one included.
enum class InUse { kNo, kYes, kUnknown };  // kUnknown: the file system cannot tell
Result<InUse> AskInUse(const std::string& path);

}  // namespace nxdkit
