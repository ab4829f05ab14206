// The processes of a run that a launcher has started, one on each machine: process 0 leads, the
// others follow (trainer/learner/followers.h), and all hear of each other
// (trainer/comm/heartbeat.h).
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

// kUsage where this process is one of several that torchrun has started, or a launcher that sets
// what torch.distributed reads, and no MPI: each of them would train a run of its own.
Status CheckLauncher();

struct LaunchOptions {
  std::string plugin;  // the library with MPI (trainer/comm/mpi_transport.h)
  Heartbeat::Options heartbeat;
};

// Of process 0. Without a launcher there is nothing in it.
class Launch {
 public:
  // kUsage when there are not as many processes as machines.
  static Result<Launch> Start(const RunPlan& plan, const LaunchOptions& options);
  Launch(Launch&&) noexcept;
  ~Launch();  // without End: as after Fail, without a reason

  Transport* transport() const { return transport_.get(); }  // nullptr: this process is alone
  Leader* leader() const { return leader_.get(); }

  // In order: the others end, and this returns when they have. Nothing of the run may be left that
  // uses the transport.
  Status End();
  // The others end: in order where they can, else they are told why and end at once. Nothing of the
  // run may be left that uses the transport.
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

// The life of another process, until the run is over: good, or the error that this process is to
// end with at once, by _exit: it has been told to the others.
Status FollowLaunch(const FollowOptions& options);

}  // namespace nxdkit::trainer
