// Open MPI (or another MPI-3) as a transport, from a plugin that is loaded only if a launcher
// started this process: ordinary runs need no MPI.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// The number of processes that a launcher (mpirun, srun) reports; 1 without a launcher, or if it
// started only one.
int LaunchedProcesses();
// The number of this process among them, as the launcher reports it.
int LaunchedProcess();

struct MpiOptions {
  std::string plugin;  // the library's path
  // Transport::patience.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
};

// Called once per process. kUnsupported when the plugin cannot be loaded or MPI does not start,
// with the package to install. Destroying the transport waits for the other processes to destroy
// theirs, unless a Run has failed: then the process has to end with _exit.
Result<std::unique_ptr<Transport>> StartMpi(const MpiOptions& options);

}  // namespace nxdkit::trainer
