// PRIVATE to formats/ops: one living process for each part. Two processes started as the same part
// would both succeed, and wait for the other parts for ever.
#pragma once

#include <string>

#include "formats/artifact/run.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

// The file OUTPUT.parts/owner-I, which names the process that makes a part. It is removed with the
// object; a killed process leaves it.
class PartOwner {
 public:
  PartOwner() = default;
  PartOwner(const PartOwner&) = delete;
  PartOwner& operator=(const PartOwner&) = delete;
  ~PartOwner();

  // kIo if another living process has the same number, and if the folder is gone. For a process on
  // another machine, which cannot be checked, it waits for a minute of silence, and no longer.
  // After waiting, the caller first checks whether the part is done. `attempt`: the folder that was
  // just made for it.
  Status Take(const std::string& folder, int part, const std::string& attempt,
              const RunOptions& run);

 private:
  std::string path_;
};

}  // namespace nxdkit::ops
