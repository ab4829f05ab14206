// What is wrong with a configuration, all of it at once.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct ConfigProblem {
  Errc code = Errc::kUsage;
  std::string key;      // full path; "" when it is about no key
  std::string message;  // with its numbers
  std::string fix;      // what to do about it; may be empty
  std::string place;    // "config.yaml line 12 column 5", "command line: a.b=c"; may be empty
};

// One error of all problems (at least one), in their order: a single one is its own message with
// its key as member; several are numbered, one a line:
// "[2] config.yaml line 12 column 5: worker.actor.optim.lr: MESSAGE; FIX". The code is that of the
// first.
Error ProblemsError(const std::vector<ConfigProblem>& problems);

}  // namespace nxdkit::trainer
