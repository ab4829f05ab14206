// PRIVATE to tools/: an inspection as text for people and as JSON for programs.
#pragma once

#include <string>

#include "formats/kinds/facts.h"
#include "formats/ops/inspect/inspect.h"

namespace nxdkit::tool {

// "nfs4 fs-1:/; other machines may have it; lacks ...".
std::string FileSystemText(const Mount& mount);

// All known facts except the tensors, in the order in which they are shown.
kinds::Facts FactsOf(const ops::Inspection& inspection);

// The description, and one line for each fact that has one; every line ends with a line feed.
std::string SummaryText(const ops::Inspection& inspection);

// The keys that man/ckpt-inspect.1 documents, without `tensors`.
Json SummaryJson(const ops::Inspection& inspection);

}  // namespace nxdkit::tool
