// PRIVATE to formats/ops and tools: an inspection as text for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/ops/inspect/inspect.h"
#include "lib/json/json.h"

namespace nxdkit::ops {

// Statistics of the listed tensors, parallel to them; empty when not asked for.
using ListedStatistics = std::vector<std::optional<TensorStatistics>>;

// What it is, and one line for each fact; every line ends with a line feed. Names are escaped.
std::string SummaryText(const Inspection& inspection);

// An aligned table of the listed tensors with a heading; "" for none.
std::string TensorTable(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                        const ListedStatistics& statistics);

// The fields that man/ckpt-inspect.1 documents, `tensors` included.
Json InspectionJson(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                    const ListedStatistics& statistics);

}  // namespace nxdkit::ops
