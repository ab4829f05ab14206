// The program of grpo-train --rollout-worker: the worker's side of a pool, on standard input and
// output.
#include <csignal>
#include <cstdio>

#include "trainer/engines/make_engine.h"
#include "trainer/rollout/worker.h"

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  const nxdkit::Status status =
      nxdkit::trainer::RunRolloutWorker(0, 1, nxdkit::trainer::MakeEngine);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rollout worker: %s\n", status.error().ToString().c_str());
  return nxdkit::ExitCode(status.error().code());
}
