// PRIVATE to tools/: facts of an NxD set and of a rollout bundle.
#pragma once

#include "tools/inspect/fact.h"

namespace nxdkit::tool {

void AddLayout(Facts& facts, const ops::Inspection& inspection);  // grid, heads; `layout`
void AddTag(Facts& facts, const ops::Inspection& inspection);     // tag, tags, markers
void AddBeside(Facts& facts, const ops::Inspection& inspection);  // other files of a tag
void AddBundle(Facts& facts, const ops::Inspection& inspection);  // engine, shards, blobs

}  // namespace nxdkit::tool
