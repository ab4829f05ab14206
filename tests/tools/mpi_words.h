// PRIVATE to tests. What starts processes of Open MPI on this machine.
#pragma once

#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/process.h"

namespace nxdkit::test {

#ifdef NXDKIT_MPI_PLUGIN
inline constexpr const char* kMpiPlugin = NXDKIT_MPI_PLUGIN;
#else
inline constexpr const char* kMpiPlugin = "";
#endif

// For at most two minutes.
inline Words MpiWords(int processes, const Words& words) {
  Words command = {"/usr/bin/env",
                   "OMPI_ALLOW_RUN_AS_ROOT=1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                   "timeout",
                   "-k",
                   "10",
                   "120",
                   "mpirun",
                   "--oversubscribe",
                   "--bind-to",
                   "none",
                   "--mca",
                   "pml",
                   "ob1",
                   "--mca",
                   "btl",
                   "self,vader",
                   "--mca",
                   "mpi_yield_when_idle",
                   "1",
                   "-np",
                   std::to_string(processes)};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

inline bool CanLaunchMpi() {
  return !std::string(kMpiPlugin).empty() && RunProcess(MpiWords(2, {"true"})).exit_code == 0;
}

}  // namespace nxdkit::test
