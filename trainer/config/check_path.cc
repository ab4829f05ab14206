#include "trainer/config/check_path.h"

#include <fmt/core.h>

#include "lib/base/text.h"

namespace nxdkit::trainer {

void CheckPath(Checker& check, std::string_view key, const std::optional<std::string>& path,
               PathKind wanted) {
  if (!path) return;
  const char* what = wanted == PathKind::kFile ? "file" : "folder";
  const Result<PathKind> kind = KindOf(*path);
  if (!kind.ok())
    return check.Problem(key, EscapeControl(kind.error().ToString()), "", kind.error().code());
  if (*kind == wanted) return;
  const std::string shown = EscapeControl(*path);
  check.Problem(key,
                *kind == PathKind::kMissing ? fmt::format("there is no {} {}", what, shown)
                                            : fmt::format("{} is not a {}", shown, what),
                "", Errc::kNotFound);
}

}  // namespace nxdkit::trainer
