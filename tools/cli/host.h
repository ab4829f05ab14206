// PRIVATE to tools/: where a command runs. As a process of its own it writes to stderr and handles
// signals; called by another program it does neither, and reports to its caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "formats/artifact/artifact.h"
#include "lib/base/error.h"

namespace nxdkit::tool {

// An artifact that the caller has, open or in memory, used in place of a path.
struct HeldSource {
  const kinds::Kind* kind = nullptr;
  artifact::InputHints hints;  // with `memory`, they open it
};

class Host {
 public:
  virtual ~Host() = default;

  // kInterrupted: the work is to stop. Called from any thread.
  virtual Status Poll() const = 0;
  // A line shown to people on a terminal, and kept in the answer.
  virtual void Line(const std::string& line) = 0;
  // A line of a long-running command, not kept in the answer.
  virtual void Note(const std::string& line) = 0;
  // A line shown with -v.
  virtual void Detail(const std::string& line) = 0;
  // A phase of `bytes` bytes (0: unknown) begins, and the one before it ends.
  virtual void BeginPhase(const std::string& phase, uint64_t bytes) = 0;
  virtual void AddBytes(uint64_t bytes) = 0;  // from any thread
  virtual void EndPhases() = 0;

  virtual bool has_color() const { return false; }
  // Whether this process is the command, with its memory, its standard input and output.
  virtual bool is_process() const { return false; }
  // The source that the caller holds under this name; nullptr: the name is a path.
  virtual const HeldSource* Held(const std::string& path) const {
    (void)path;
    return nullptr;
  }
};

}  // namespace nxdkit::tool
