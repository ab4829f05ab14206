// PRIVATE to tools/: where a command runs. As a process of its own it speaks on stderr and hears
// signals; called by another program it does neither, and tells its caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "formats/artifact/artifact.h"
#include "lib/base/error.h"

namespace nxdkit::tool {

// An artifact that the caller has at hand, open or in memory, in the place of a path.
struct HeldSource {
  const kinds::Kind* kind = nullptr;
  artifact::InputHints hints;  // with `memory`: they open it
};

class Host {
 public:
  virtual ~Host() = default;

  // kInterrupted: the work is to stop. From any thread.
  virtual Status Poll() const = 0;
  // A line that people see on a terminal, and that the answer has too.
  virtual void Line(const std::string& line) = 0;
  // A line of a command that goes on for long, which the answer does not have.
  virtual void Note(const std::string& line) = 0;
  // A line that was asked for with -v.
  virtual void Detail(const std::string& line) = 0;
  // A phase of `bytes` bytes begins (0: unknown), whatever went before is over.
  virtual void BeginPhase(const std::string& phase, uint64_t bytes) = 0;
  virtual void AddBytes(uint64_t bytes) = 0;  // from any thread
  virtual void EndPhases() = 0;

  virtual bool has_color() const { return false; }
  // Whether this process is the command, with its memory, its standard input and output.
  virtual bool is_process() const { return false; }
  // The source that the caller holds under the name of a path; nullptr: the path is one.
  virtual const HeldSource* Held(const std::string& path) const {
    (void)path;
    return nullptr;
  }
};

}  // namespace nxdkit::tool
