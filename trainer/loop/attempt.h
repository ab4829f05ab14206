// The number of this start of a run. A scheduler that has lost contact with a job may start it
// again while it still runs: on another machine, on a file system without locks. Each start claims
// the next number, and publishes only while no later one has been claimed.
//
//   RUN/attempts/7   {"host": ..., "process": ..., "job": ...}, of attempt 7; older: deleted
//   RUN/DONE         {"step": ..., "attempt": ...}: the run has made all its steps, and saved them.
//                    Removed when a run with steps left begins. Job scripts should check it:
//                    srun has been seen to return 0 after the failure of a machine.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::trainer {

class Attempt {
 public:
  // kIo when nothing can be written.
  static Result<Attempt> Claim(const std::string& run_folder);
  int64_t number() const { return number_; }

  // kIo naming the newer attempt and its machine, once there is one. Writes to the folder: an NFS
  // client refreshes its view of a folder that it has changed itself.
  Status Check() const;
  // Does Check, then writes the marker.
  Status Done(int64_t step) const;
  Status ClearDone() const;

 private:
  Attempt(std::string run_folder, int64_t number)
      : run_folder_(std::move(run_folder)), number_(number) {}
  std::string run_folder_;
  int64_t number_;
};

}  // namespace nxdkit::trainer
