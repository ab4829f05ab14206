// PRIVATE to tools/: the tensors that ckpt-inspect lists.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/ops/inspect/inspect.h"
#include "formats/ops/inspect/statistics.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

// Statistics of the listed tensors, parallel to them; empty when not asked for.
using ListedStatistics = std::vector<std::optional<ops::TensorStatistics>>;

// An aligned table of the listed tensors with a heading; "" for none.
std::string TensorTable(const ops::Inspection& inspection,
                        const std::vector<ops::TensorPlace>& listed,
                        const ListedStatistics& statistics);

// `tensors`, as man/ckpt-inspect.1 documents it.
Json TensorsJson(const ops::Inspection& inspection, const std::vector<ops::TensorPlace>& listed,
                 const ListedStatistics& statistics);

}  // namespace nxdkit::tool
