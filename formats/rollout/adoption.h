// PRIVATE to formats/rollout: turns the folder `weights` of a bundle from elsewhere into a slot,
// and gives its name to a link. In one step where the file system can exchange names; otherwise
// (NFS, Lustre, FUSE, overlay) in steps that the next run completes:
//
// .weights.adopt is written, and names the slot    weights is the folder
// weights is renamed to the slot                   weights is missing: for microseconds, or one
//                                                  round trip; our readers find the slot
// a link to the slot is renamed to weights         weights is the link
// .weights.adopt is removed
#pragma once

#include <optional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::rollout {

struct Adopted {
  std::string slot;  // path
  bool in_steps = false;
};
// `weights` must be a plain folder. kUnsupported, with nothing changed, where folders cannot be
// renamed.
Result<Adopted> Adopt(const std::string& weights, bool sync);

// The folder that was `weights`, when an adoption was interrupted and left it missing.
Result<std::optional<std::string>> AdoptedAway(const std::string& weights);

// The slot of the highest serial without a mark; if none has a serial, or two the same, the later
// one.
Result<std::optional<std::string>> NewestWhole(const std::string& weights);

// Completes what a killed process left, so that `weights` leads to a whole version again: finishes
// an adoption, or, where slots exist but the link is dangling or missing (changed by hand), links
// to the newest whole slot. Returns what was done, for a message; "" if there was nothing to do.
// Called by the writer.
Result<std::string> Repair(const std::string& weights, bool sync);

}  // namespace nxdkit::rollout
