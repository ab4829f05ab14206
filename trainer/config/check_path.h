// PRIVATE to trainer/config: whether a path that the configuration names is there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/system/look.h"
#include "trainer/config/checker.h"

namespace nxdkit::trainer {

// Adds a problem where `path` is said and is no `wanted`, a file or a folder.
void CheckPath(Checker& check, std::string_view key, const std::optional<std::string>& path,
               PathKind wanted);

}  // namespace nxdkit::trainer
