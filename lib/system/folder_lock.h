// Advisory locks (flock) on folders: readers share one, a process that overwrites the contents
// takes it alone. A lock ends with the process that holds it, however that ends.
#pragma once

#include <string>

#include "lib/system/file.h"

namespace nxdkit {

// Whether this errno of flock means that there are no locks: Lustre without the flock option has
// none, nor has NFS for folders. Callers that can do without locks continue.
bool LocksAreMissing(int failure);

// An attempt to lock a folder. Move-only; the lock is released with the object.
class FolderLock {
 public:
  enum class Mode { kShared, kExclusive };
  enum class State {
    kHeld,
    kBusy,        // another process, or another object of this one, holds it
    kUnsupported  // the file system has no locks for folders (NFS, Lustre without flock)
  };

  // Does not wait. Symbolic links are followed. kNotFound if there is no such folder.
  static Result<FolderLock> Try(const std::string& path, Mode mode);

  State state() const { return state_; }
  // Whether `path` currently leads to the folder that was opened.
  bool IsAt(const std::string& path) const;
  // A path to the folder that was opened, whatever its names are by now; valid in this process,
  // while this lives and is not released. Not for messages.
  std::string HeldPath() const;
  void Release() { folder_ = File(); }

 private:
  FolderLock(File folder, State state) : folder_(std::move(folder)), state_(state) {}
  File folder_;
  State state_;
};

// Whether a file is in use by somebody without a lock: an open descriptor or a memory mapping, in
// any process of this machine, this one included.
enum class InUse { kNo, kYes, kUnknown };  // kUnknown: the file system cannot tell
Result<InUse> AskInUse(const std::string& path);

}  // namespace nxdkit
