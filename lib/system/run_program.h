// Runs a program to its end for its output, within a time and a size.
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
  std::vector<std::string> words;        // words[0]: the program's name
  std::vector<std::string> environment;  // "NAME=value", complete
  std::chrono::milliseconds most{20'000};
  size_t max_bytes = 4 << 20;         // of its standard output
  std::function<Status()> poll = {};  // its error (kInterrupted) ends the program
};

// Its standard output; its standard input is empty. On return, it and all that it started have
// ended. kNotFound if it cannot be started, kLimit if it prints more than `max_bytes`, kIo if it
// has not ended after `most` or exits with anything but 0; the end of its standard error is in the
// message. The error of `poll` is returned as it is.
Result<std::string> OutputOf(const ProgramRun& run);

}  // namespace nxdkit
