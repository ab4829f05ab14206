// PRIVATE to trainer/reward. A reward computed by another program: one JSON object per sample and
// line on its standard input, one line for each on its standard output, in the same order.
// README.md here describes the protocol.
#pragma once

#include <memory>
#include <string>

#include "trainer/reward/reward.h"

namespace nxdkit::trainer {

// `command`: words, split as by a shell at white space and quotes. `timeout_seconds` for one batch.
// kUsage for a command that cannot be split, kNotFound when there is no such program.
Result<std::unique_ptr<Reward>> MakeExecReward(const std::string& command, double timeout_seconds);

}  // namespace nxdkit::trainer
