// The processes of a run that a launcher has started, one per machine: process 0 leads, the others
// follow (trainer/learner/followers.h), and all exchange heartbeats (trainer/comm/heartbeat.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/heartbeat.h"
#include "trainer/comm/transport.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

class Leader;

// kUsage when torchrun, or a launcher that sets torch.distributed's variables but does not use MPI,
// has started several processes: each of them would train a separate run.
Status CheckLauncher();

struct LaunchOptions {
  std::string plugin;  // the library with MPI (trainer/comm/mpi_transport.h)
  Heartbeat::Options heartbeat;
};

// Process 0's side. Empty without a launcher.
class Launch {
 public:
  // kUsage when the number of processes is not that of machines.
  static Result<Launch> Start(const RunPlan& plan, const LaunchOptions& options);
  Launch(Launch&&) noexcept;
  ~Launch();  // without End: like Fail, without a reason

  Transport* transport() const { return transport_.get(); }  // nullptr: this process is alone
  Leader* leader() const { return leader_.get(); }

  // The orderly end: returns when the other processes have ended. No part of the run may still use
  // the transport.
  Status End();
  // Ends the other processes: in order if possible, otherwise they are told the reason and end at
  // once. No part of the run may still use the transport.
  void Fail(const Error& error);

 private:
  Launch();
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Leader> leader_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::function<void(const Error& error, bool own)> on_lost_;
};

struct FollowOptions {
  LaunchOptions launch;
  std::vector<std::string> worker_command;    // what runs a rollout worker
  std::vector<std::string> neuron_variables;  // TakeNeuronVariables of this process
};

// Runs another process until the run is over. Returns success, or an error with which this process
// must end at once, by _exit: the others have been told.
Status FollowLaunch(const FollowOptions& options);

}  // namespace nxdkit::trainer
