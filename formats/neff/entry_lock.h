// PRIVATE to formats/neff: the lock of an entry of a compile cache.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lib/error.h"

namespace nxdkit::neff {

// A flock on the folder of an entry: those who read it share one, who makes or removes it holds it
// alone. Move-only; released with the object and with the process. On file systems without locks
// (NFS without a lock daemon) it is always granted.
class EntryLock {
 public:
  enum class Mode { kShared, kAlone };

  // nullopt when another holds it, or when the folder went or was replaced meanwhile. kNotFound
  // when there is no such folder.
  static Result<std::optional<EntryLock>> Try(const std::string& folder, Mode mode);
  // Waits, asking `poll` in between. kNotFound as well when the folder goes while waiting.
  static Result<EntryLock> Wait(const std::string& folder, Mode mode,
                                const std::function<Status()>& poll);

  EntryLock(EntryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  EntryLock& operator=(EntryLock&& other) noexcept;
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;
  ~EntryLock();

  // From alone to shared: nobody can take it alone in between, but others may read.
  void Share();

 private:
  explicit EntryLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Whether a living process holds the file lock `path` (a *.lock of the vendor's libraries, which
// are flocks too); true as well when it cannot be told.
bool IsHeld(const std::string& path);

}  // namespace nxdkit::neff
