// PRIVATE to tests. A command that is ended by a signal.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
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

}  // namespace nxdkit::test
