// What grpo-train --rollout-worker is: the worker's side of a pool, on standard input and output.
#include <cstdio>

#include "trainer/rollout/worker.h"

int main() {
  const nxdkit::Status status = nxdkit::trainer::RunRolloutWorker(0, 1);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rollout worker: %s\n", status.error().ToString().c_str());
  return nxdkit::ExitCode(status.error().code());
}
