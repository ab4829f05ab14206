// PRIVATE to tests. The words that start processes of Open MPI on this machine.
#pragma once

#include <filesystem>
#include <string>

#include "lib/system/process.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/process.h"

namespace nxdkit::test {

#ifdef NXDKIT_MPI_PLUGIN
inline constexpr const char* kMpiPlugin = NXDKIT_MPI_PLUGIN;
#else
inline constexpr const char* kMpiPlugin = "";
#endif

// For one launch. Each launch removes its session folders when it ends, including the one in the
// temporary folder that all of a user's launches share and that another one may be about to use;
// and its shared memory would be in /dev/shm, which is small in containers and used by others.
inline Words MpiEnvironment() {
  static const TempFolder folder;
  static int launches = 0;
  const std::string own = folder.path() + "/" + std::to_string(++launches);
  std::filesystem::create_directory(own);
  return {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "TMPDIR=" + own, "OMPI_MCA_btl_vader_backing_directory=" + own};
}

// For at most five minutes.
inline Words MpiWords(int processes, const Words& words) {
  Words command = MpiEnvironment();
  command.insert(command.end(),
                 {"timeout", "-k", "10", "300", "mpirun", "--oversubscribe", "--bind-to", "none",
                  "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca",
                  "mpi_yield_when_idle", "1", "-np", std::to_string(processes)});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// Why there is no Open MPI here; "" when there is: it must work then.
inline std::string MpiMissing() {
  if (std::string(kMpiPlugin).empty()) return "built without Open MPI";
  return FindProgram("mpirun") ? "" : "there is no mpirun";
}

}  // namespace nxdkit::test
