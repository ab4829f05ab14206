// PRIVATE: identifies a process and its machine, and whether it lives: for files that act as locks
// where the file system has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit {

struct Owner {
  std::string host;
  std::string boot;  // of its kernel; two containers of one machine share it
  int64_t pid = 0;
  int64_t start = 0;  // in ticks since the boot; differs when a pid is used again

  std::string ToText() const;  // one line of four words
  bool operator==(const Owner&) const = default;
};

Owner ThisProcess();
// For the names of files that others may make at the same moment: process ids may be equal in two
// containers.
uint64_t RandomNumber();
std::optional<Owner> ParseOwner(std::string_view text);  // the line from ToText

// kUnknown: it ran on another machine, or its processes cannot be seen.
enum class Alive { kYes, kNo, kUnknown };
Alive AskAlive(const Owner& owner);

// The time of the last change of the file or folder itself, in seconds by the clock of its file
// system; 0 if it is missing, and now if it cannot be looked at: that makes nobody count as dead.
// The writes of a process on another machine are the only sign of its life.
int64_t ChangedAt(const std::string& path);

// Whether it must be waited for: a process that cannot be checked counts as alive for `patience`
// seconds after its last sign.
bool MayLive(Alive alive, int64_t last_sign, int64_t now, int64_t patience);

}  // namespace nxdkit
