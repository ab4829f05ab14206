// PRIVATE to formats/ops: one living process for each part. Two that were started as the same part
// would both end well, and wait for the others' for ever.
#pragma once

#include <string>

#include "formats/artifact/run.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

// The file OUTPUT.parts/owner-I that names who makes a part. It goes with the object; a killed
// process leaves it.
class PartOwner {
 public:
  PartOwner() = default;
  PartOwner(const PartOwner&) = delete;
  PartOwner& operator=(const PartOwner&) = delete;
  ~PartOwner();

  // kIo when another living process has the same number, and when the folder is gone. Of one that
  // cannot be asked, on another machine, a minute's silence is waited for, and no longer. Who has
  // waited looks first whether the part is done by now. `attempt`: the folder that was just made
  // for it.
  Status Take(const std::string& folder, int part, const std::string& attempt,
              const RunOptions& run);

 private:
  std::string path_;
};

}  // namespace nxdkit::ops
