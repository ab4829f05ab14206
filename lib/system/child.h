// A program that is talked to over its standard streams, and that ends with this process, however
// it ends.
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

// Ends all that a program started once this process is gone, however it ended: a shell that waits
// for the end of a pipe that only this process holds open. The kernel's own signal
// (ProcessOptions::signal_with_parent) would reach the program, but not its children.
class Keeper {
 public:
  // nullopt if there is no shell.
  static std::optional<Keeper> Start(const Process& program);

 private:
  Keeper(Descriptor life, Process shell) : life_(std::move(life)), shell_(std::move(shell)) {}
  Descriptor life_;
  Process shell_;  // ended before the pipe: later the group's number may be another's
};

// A program and non-blocking pipes to it. When this process is gone, its input ends, and so does
// the program. Move-only.
struct Child {
  Process process;
  Descriptor in, out, err;  // err: not open if its standard error is ours
  std::optional<Keeper> keeper;

  // Closes its input; processes that are left `grace` later are asked to end, and killed `grace`
  // after that.
  void End(std::chrono::milliseconds grace = std::chrono::seconds(1));
};

struct ChildOptions {
  std::string program;  // a path
  std::vector<std::string> words;
  std::vector<std::string> environment;
  bool read_errors = true;  // of its standard error
};

// kNotFound with the program if it cannot be started.
Result<Child> StartChild(const ChildOptions& options);

// The bytes that are there to read now; nullopt: none; empty: the end.
std::optional<std::string_view> ReadSome(const Descriptor& pipe, std::span<char> buffer);

}  // namespace nxdkit
