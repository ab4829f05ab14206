// Leftovers of dead processes in a compile cache, and whether their maker may be alive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::neff {

// A temporary, discarded or captured file or folder:
// <of>.tmp.<pid>  <of>.tmp.<host>.<pid>  <of>.trash.<pid>  <of>.capture.<pid>
struct Leftover {
  std::string of;    // the intended name: a key, "nki", the name of a file
  std::string what;  // "tmp", "trash" or "capture"
  std::string host;  // "" if not in the name
  int64_t pid = 0;
};
std::optional<Leftover> ParseLeftover(std::string_view name);  // a base name

// Whether AsideName made the name, in any process.
bool IsOurs(const Leftover& leftover);

// "<of>.tmp.<host>~<8 hex>.<pid>" for this process, as the vendor names files to be promoted, plus
// the digits, which are different each time.
std::string AsideName(std::string_view of);
// "<of>.trash.<pid>"
std::string TrashName(std::string_view of);

// A leftover unchanged for this long is taken to be abandoned. The first is the vendor's own limit
// of a compilation (600 s); the second is for processes that cannot be checked: those of other
// machines.
inline constexpr int64_t kQuietSeconds = 600;
inline constexpr int64_t kPatienceSeconds = 24 * 3600;
inline constexpr int64_t kSecondNs = 1'000'000'000;

// A tree's folder, and the time of the check.
struct TreeMoment {
  int64_t now_ns = 0;
  bool shared = false;  // other machines may use the files: a pid proves little
};
TreeMoment MomentOf(const std::string& root, int64_t now_ns = 0);  // 0: the clock

// Whether nobody works on it any more, so that it may be removed; false when in doubt. A locked
// folder is in use, whatever its pid means here: containers have pids of their own.
Result<bool> IsAbandoned(const std::string& path, const Leftover& leftover,
                         const TreeMoment& moment);

// The last change of the file or folder, or of anything directly in it.
Result<int64_t> LastChange(const std::string& path);

}  // namespace nxdkit::neff
