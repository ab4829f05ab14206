// PRIVATE to tests. A command that is ended by a signal.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <vector>

namespace nxdkit::test {

// Starts the command and sends it the signal after `delay`; its exit code, or 128 + the signal that
// ended it.
inline int RunAndSignal(std::vector<std::string> words, int signal,
                        std::chrono::microseconds delay) {
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
  const timespec wait{0, std::chrono::nanoseconds(delay).count()};
  nanosleep(&wait, nullptr);  // the moment is what is tried out, nothing waits for the child
  kill(child, signal);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Random moments for kills. A machine is now slow, now fast: after a run that was over before its
// signal the moments come earlier, after a kill in time later again.
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
  // Whether to go on after `done` of `times` rounds: until one kill came in time, within reason.
  bool GoesOn(int done, int times) const { return done < times || (killed_ == 0 && done < 50); }

 private:
  int64_t longest_;
  int64_t range_;
  std::mt19937 random_;
  int killed_ = 0;
};

}  // namespace nxdkit::test
