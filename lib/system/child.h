// A program that is talked to over its standard streams, and that ends with us whatever ends us.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/system/descriptor.h"
#include "lib/system/process.h"

namespace nxdkit {

// Ends all that a program started once this process is gone, whatever ended it: a shell that waits
// for the end of a pipe that only we hold open. The kernel's own signal
// (ProcessOptions::signal_with_parent) would reach the program, not what it has started.
class Keeper {
 public:
  // nullopt where there is no shell.
  static std::optional<Keeper> Start(const Process& program);

 private:
  Keeper(Descriptor life, Process shell) : life_(std::move(life)), shell_(std::move(shell)) {}
  Descriptor life_;
  Process shell_;  // ended before the pipe: the group's number may be another's by then
};

// A program and the pipes to it, which do not block. When we are gone its input ends, and so does
// it. Move-only.
struct Child {
  Process process;
  Descriptor in, out, err;  // err: not open when its standard error is ours
  std::optional<Keeper> keeper;

  // Ends its input; what has not gone `grace` after that is asked to end, and `grace` later ended.
  void End(std::chrono::milliseconds grace = std::chrono::seconds(1));
};

struct ChildOptions {
  std::string program;  // a path
  std::vector<std::string> words;
  std::vector<std::string> environment;
  bool read_errors = true;  // of its standard error
};

// kNotFound with the program when it cannot be started.
Result<Child> StartChild(const ChildOptions& options);

// What is there to read now; nullopt: nothing; empty: the end.
std::optional<std::string_view> ReadSome(const Descriptor& pipe, std::span<char> buffer);

}  // namespace nxdkit
