// PRIVATE to formats/rollout: the folder `weights` of a bundle that others made becomes a slot, and
// a link to it takes its name. In one step where the file system can exchange names; elsewhere
// (NFS, Lustre, FUSE, overlay) in steps that the next run completes:
//
//   .weights.adopt is written, and names the slot    weights is the folder
//   weights is renamed to the slot                   weights is missing: for microseconds, or one
//                                                    round trip; our readers find the slot
//   a link to the slot is renamed to weights         weights is the link
//   .weights.adopt goes
#pragma once

#include <optional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::rollout {

struct Adopted {
  std::string slot;  // path
  bool in_steps = false;
};
// `weights` must be a plain folder. kUnsupported where folders cannot be renamed: then nothing has
// changed.
Result<Adopted> Adopt(const std::string& weights, bool sync);

// The folder that was `weights` when an adoption ended half way and left it missing.
Result<std::optional<std::string>> AdoptedAway(const std::string& weights);

// The slot of the highest serial without a mark; of two with none, or the same, the later made.
Result<std::optional<std::string>> NewestWhole(const std::string& weights);

// Completes what a kill left, so that `weights` leads to a whole version again: an adoption; or a
// link to nothing, or none at all, beside slots (somebody's hand), which then leads to the newest
// whole one. Returns what was done, for a message; "" when all was well. Called by the writer.
Result<std::string> Repair(const std::string& weights, bool sync);

}  // namespace nxdkit::rollout
