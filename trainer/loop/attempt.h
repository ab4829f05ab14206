// Which start of a run this is. A scheduler that has lost sight of a job may start it again while
// it still runs: on another machine, on a file system without locks. Each start claims the next
// number, and publishes only while no later one has been claimed.
//
//   RUN/attempts/7   {"host": ..., "process": ..., "job": ...}, of attempt 7; older ones go
//   RUN/DONE         {"step": ..., "attempt": ...}: the run has made all its steps, and saved them.
//                    Removed when a run that has steps left begins. What a job script should look
//                    at: srun has been seen to return 0 after the failure of a machine.
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

  // kIo with the newer attempt and its machine, once there is one. Writes to the folder: a client
  // of NFS looks anew at a folder that it has changed itself.
  Status Check() const;
  // Check, and the marker.
  Status Done(int64_t step) const;
  Status NotDone() const;

 private:
  Attempt(std::string run_folder, int64_t number)
      : run_folder_(std::move(run_folder)), number_(number) {}
  std::string run_folder_;
  int64_t number_;
};

}  // namespace nxdkit::trainer
