// Open MPI (or another MPI-3) as a transport, from a plugin that is loaded when a launcher has
// started this process: ordinary runs need no MPI.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// How many processes a launcher (mpirun, srun) says that it started; 1 without one, and where only
// one was started.
int LaunchedProcesses();
// Which of them this is, as the launcher says.
int LaunchedProcess();

struct MpiOptions {
  std::string plugin;  // the library's path
  // Transport::patience.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
};

// Once per process. kUnsupported when the plugin cannot be loaded or MPI does not start, with what
// to install. When the transport is freed, it waits for the other processes to free theirs, unless
// a Run has failed: then the process has to end by _exit.
Result<std::unique_ptr<Transport>> StartMpi(const MpiOptions& options);

}  // namespace nxdkit::trainer
