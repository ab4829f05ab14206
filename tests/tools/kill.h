// PRIVATE to tests. Commands ended by a signal.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/lib/eventually.h"
#include "tests/lib/processes.h"

namespace nxdkit::test {

// Starts the command and discards its output.
inline pid_t StartProcess(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return child;
}

// The exit code, or 128 + the signal that ended the process.
inline int WaitProcess(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Starts the command and sends it the signal after `delay`; returns like WaitProcess.
inline int RunAndSignal(std::vector<std::string> words, int signal,
                        std::chrono::microseconds delay) {
  const pid_t child = StartProcess(std::move(words));
  const timespec wait{0, std::chrono::nanoseconds(delay).count()};
  nanosleep(&wait, nullptr);  // a random moment: nothing waits for the child
  kill(child, signal);
  return WaitProcess(child);
}

// Whether the path appears in time.
inline bool WaitFor(const std::string& path) {
  return testing_util::Eventually([&] { return access(path.c_str(), F_OK) == 0; });
}

// The live children of `parent`.
inline std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = testing_util::ProcStat(entry.path());
    if (stat.size() > 2 && std::atoi(stat.c_str() + 2) == parent)
      children.push_back(std::stoi(name));
  }
  return children;
}

// Random moments for kills. The speed of a machine varies: after a run that ended before its signal
// the moments come earlier, after a kill in time later again.
class KillMoments {
 public:
  KillMoments(std::chrono::microseconds longest, uint32_t seed)
      : longest_(longest.count()), range_(longest_), random_(seed) {}

  std::chrono::microseconds Next() {
    return std::chrono::microseconds(random_() % static_cast<uint64_t>(range_));
  }
  void Note(bool in_time) {
    killed_ += in_time;
    range_ = in_time ? std::min(longest_, range_ * 2) : std::max<int64_t>(500, range_ / 2);
  }
  int killed() const { return killed_; }
  // Whether to continue after `done` of `times` rounds: until one kill came in time, within reason.
  bool GoesOn(int done, int times) const { return done < times || (killed_ == 0 && done < 50); }

 private:
  int64_t longest_;
  int64_t range_;
  std::mt19937 random_;
  int killed_ = 0;
};

}  // namespace nxdkit::test
