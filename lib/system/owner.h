// PRIVATE: which process made something, on which machine, and whether it lives: for files that
// stand in for locks where the file system has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit {

struct Owner {
  std::string host;
  std::string boot;  // of the kernel it runs on; two containers of one machine share it
  int64_t pid = 0;
  int64_t start = 0;  // in ticks since the boot: another process of the same pid has another

  std::string ToText() const;  // one line of four words
  bool operator==(const Owner&) const = default;
};

Owner ThisProcess();
// For the names of files that others may make at the same moment: a process id does not tell two
// containers apart.
uint64_t RandomNumber();
std::optional<Owner> ParseOwner(std::string_view text);  // the line that ToText gives

// kUnknown: it ran on another machine, or where its processes cannot be seen.
enum class Alive { kYes, kNo, kUnknown };
Alive AskAlive(const Owner& owner);

// When the file or folder itself changed last, in seconds by the clock of its file system; 0 where
// it is not, and now where it cannot be looked at: nobody is taken for dead by that. What a process
// of another machine writes is the only sign of its life.
int64_t ChangedAt(const std::string& path);

// Whether it must be waited for: what cannot be asked counts as alive for `patience` seconds after
// its last sign.
bool MayLive(Alive alive, int64_t last_sign, int64_t now, int64_t patience);

}  // namespace nxdkit
