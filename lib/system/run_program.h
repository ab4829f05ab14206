// A program that is run to its end for what it prints: within a time, and within a size.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

struct ProgramRun {
  std::string program;                   // a path
  std::vector<std::string> words;        // words[0]: what it is called
  std::vector<std::string> environment;  // "NAME=value", all that it gets
  std::chrono::milliseconds most{20'000};
  size_t max_bytes = 4 << 20;         // of its standard output
  std::function<Status()> poll = {};  // an error (kInterrupted) ends the program
};

// Its standard output; its standard input is empty. When this returns, it and all that it started
// have ended. kNotFound when it cannot be started, kLimit when it prints more than `max_bytes`, kIo
// when it has not ended after `most` or exits with anything but 0; the end of its standard error is
// in the message. The error of `poll` as it is.
Result<std::string> OutputOf(const ProgramRun& run);

}  // namespace nxdkit
