// PRIVATE to trainer/reward. A reward that another program computes: one JSON object per sample and
// line to its standard input, one per line back from its standard output, in the same order. The
// protocol is in README.md here.
#pragma once

#include <memory>
#include <string>

#include "trainer/reward/reward.h"

namespace nxdkit::trainer {

// `command`: words, split as a shell would at white space and quotes. `timeout_seconds` for one
// batch. kUsage for a command that cannot be split, kNotFound when there is no such program.
Result<std::unique_ptr<Reward>> MakeExecReward(const std::string& command, double timeout_seconds);

}  // namespace nxdkit::trainer
