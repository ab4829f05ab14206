// PRIVATE to trainer/reward. A program that runs beside us, with pipes to its standard input,
// output and error, in a process group of its own. It gets our environment. When we are gone its
// input ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/error.h"

namespace nxdkit::trainer {

// A file descriptor that is closed with the object.
class Pipe {
 public:
  Pipe() = default;
  explicit Pipe(int fd) : fd_(fd) {}
  Pipe(Pipe&& other) noexcept;
  Pipe& operator=(Pipe&& other) noexcept;
  ~Pipe() { Close(); }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

class Child {
 public:
  // `program` is a path, words[0] what it is called. kNotFound when it cannot be started.
  static Result<std::unique_ptr<Child>> Start(const std::string& program,
                                              const std::vector<std::string>& words);
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Do not block.
  Pipe in, out, err;

  bool HasEnded() const;
  // Ends its input; what has not gone a second after that gets SIGTERM, and all of its group
  // SIGKILL another second later. Leaves no zombie.
  void End();
  // SIGKILL to all of its group at once.
  void Kill();
  // After End or Kill: "exited with 3", "was ended by signal 9".
  std::string EndText() const;

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  bool WaitForEnd(int milliseconds) const;
  void Reap();

  pid_t pid_;
  bool reaped_ = false;
  int status_ = 0;
};

// write(2) without SIGPIPE: EPIPE is all that happens when nobody reads.
ssize_t WriteQuietly(int fd, std::string_view bytes);

}  // namespace nxdkit::trainer
