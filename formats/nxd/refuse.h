// The NxD files that are kept with shard sets and cannot be read as one: every row of FORMAT.md's
// decision table that is not a SetStyle, refused by name.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::nxd {

// A file of NxD's older ZeRO-1: optim.dp_rank_DD.tp_rank_TT.
bool IsLegacyOptimizer(std::string_view name);

// Whether the folder is an `optim` folder of rank files; asked first, because their names are those
// of model shards.
Result<bool> IsOptimizerFolder(const std::string& path, const Looker& look = {});

// kUnsupported saying what the folder is and what to do; OK when it is none of these. Checks names
// only, and only for folders without a shard set.
Status RefuseByName(const std::string& path, const Looker& look = {});

}  // namespace nxdkit::nxd
