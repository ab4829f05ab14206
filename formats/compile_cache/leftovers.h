// Leftovers of processes that died in a compile cache, and whether their maker may live.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::neff {

// A file or folder that was built aside, moved away or captured:
//   <of>.tmp.<pid>  <of>.tmp.<host>.<pid>  <of>.trash.<pid>  <of>.capture.<pid>
struct Leftover {
  std::string of;    // the name it was to have: a key, "nki", the name of a file
  std::string what;  // "tmp", "trash" or "capture"
  std::string host;  // "" where the name has none
  int64_t pid = 0;
};
std::optional<Leftover> ParseLeftover(std::string_view name);  // a base name

// Whether AsideName made the name, in whatever process.
bool IsOurs(const Leftover& leftover);

// "<of>.tmp.<host>~<8 hex>.<pid>" of this process, as the vendor names what it promotes but for
// the digits, which are others each time.
std::string AsideName(std::string_view of);
// "<of>.trash.<pid>"
std::string TrashName(std::string_view of);

// As long as nothing changed in it for this long, nobody is taken to work on it. The first is the
// vendor's own limit of a compilation (600 s); the second stands for processes that cannot be
// asked: those of other machines.
inline constexpr int64_t kQuietSeconds = 600;
inline constexpr int64_t kPatienceSeconds = 24 * 3600;
inline constexpr int64_t kSecondNs = 1'000'000'000;

// The folder of a tree, and when it is looked at.
struct TreeMoment {
  int64_t now_ns = 0;
  bool shared = false;  // other machines may have the same files: a pid says little
};
TreeMoment MomentOf(const std::string& root, int64_t now_ns = 0);  // 0: the clock

// Whether nobody works on it any more, so that it may go. When in doubt, no. A folder that is
// locked has somebody, whatever its process's number says here: containers have numbers of their
// own.
Result<bool> IsAbandoned(const std::string& path, const Leftover& leftover,
                         const TreeMoment& moment);

// When the file or folder, or anything directly in it, changed last.
Result<int64_t> LastChange(const std::string& path);

}  // namespace nxdkit::neff
