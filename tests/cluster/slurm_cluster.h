// PRIVATE to tests. A Slurm of two nodes on TwoHosts: munged and slurmctld on the first, slurmd on
// both, all files in the folder of the hosts. It ends with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/cluster/two_hosts.h"

namespace nxdkit::test {

class SlurmCluster {
 public:
  // The seconds that a node may be silent before Slurm gives it up.
  static constexpr int kNodeTimeout = 10;

  // Starts it, and waits until both nodes are ready.
  explicit SlurmCluster(const TwoHosts& hosts);
  // Why there is no cluster, such as Slurm not being installed; "" when it runs.
  const std::string& missing() const { return missing_; }

  // sbatch FILE ARGUMENT... The job has this process's environment and `environment` ("NAME=x"),
  // and writes to `log`. Returns its number.
  std::string Submit(const std::vector<std::string>& command,
                     const std::vector<std::string>& environment, const std::string& log) const;
  // Any command of Slurm.
  ProcessResult Run(const std::string& command) const;
  // A value that scontrol shows for the job: JobState, Restarts, Reason, ExitCode and many more.
  std::map<std::string, std::string> Job(const std::string& job) const;
  std::string StateOf(const std::string& job) const { return Job(job)["JobState"]; }
  int RestartsOf(const std::string& job) const;
  // Within this time.
  bool ComesTo(const std::string& job, const std::string& state, double seconds) const;
  // IDLE, DOWN, ALLOCATED+COMPLETING, ...
  std::string StateOfNode(const std::string& host) const;

  // `options`: -c begins without the saved state of an earlier one.
  void StartController(const std::string& options = "") const;
  void StartNode(const std::string& host) const;

 private:
  std::map<std::string, std::string> Show(const std::string& what) const;

  const TwoHosts& hosts_;
  const std::string folder_;
  std::string missing_;
};

}  // namespace nxdkit::test
