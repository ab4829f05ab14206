// PRIVATE to formats/ops: the folder OUTPUT.parts, where the parts of a conversion meet.
//
//   OUTPUT.parts/plan           fingerprint of the plan, and the number of parts
//   OUTPUT.parts/part-I-...     where part I builds; private to one attempt
//   OUTPUT.parts/owner-I        the process that makes part I now (part_owner.h)
//   OUTPUT.parts/files/...      finished files, synced and renamed into place
//   OUTPUT.parts/done-I         part I's files are complete: the plan, and who made them
//
// It appears with its plan by one rename, and disappears as a whole by another: a process still
// at work in it finds that it is gone, and does not make it again. Leftovers of a process killed
// between the two are named OUTPUT.parts.NUMBER.partial, and do no harm.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace nxdkit::ops {

// The folder does not exist yet, or it is this plan's. kUsage for another one.
Status CheckPartsFolder(const std::string& folder, const std::string& plan);

// Makes it, unless it exists.
Status ClaimPartsFolder(const std::string& folder, const std::string& plan);

// Moves the file `path` from the folder `from` to FOLDER/files/PATH. kIo if the folder is gone.
Status MoveIntoParts(const std::string& folder, const std::string& from, const std::string& path);
std::string FinishedPath(const std::string& folder, const std::string& path);

// Once the output is complete nobody needs it: files that cannot be removed stay.
void RemovePartsFolder(const std::string& folder);

// Cleans up next to a complete output: the folder, if it is this plan's or has none, as earlier
// versions left it, and leftovers of killed processes.
void ClearLeftParts(const std::string& folder, const std::string& plan);

}  // namespace nxdkit::ops
