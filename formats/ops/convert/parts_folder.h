// PRIVATE to formats/ops: the folder OUTPUT.parts, where the parts of a conversion meet.
//
//   OUTPUT.parts/plan           fingerprint of the plan, and into how many parts it is split
//   OUTPUT.parts/part-I-...     where part I builds; private to one attempt
//   OUTPUT.parts/owner-I        who makes part I now (part_owner.h)
//   OUTPUT.parts/files/...      finished files, synced and renamed into place
//   OUTPUT.parts/done-I         part I's files are all there: the plan, and who made them
//
// It comes with its plan by one rename, and goes as a whole by another: whoever is still at work in
// it finds that it is gone, and makes nothing of it anew. What a killed process leaves between the
// two is named OUTPUT.parts.NUMBER.partial, and harms nobody.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace nxdkit::ops {

// The folder is not there yet, or it is that of this plan. kUsage for another one.
Status CheckPartsFolder(const std::string& folder, const std::string& plan);

// Makes it, unless it is there.
Status ClaimPartsFolder(const std::string& folder, const std::string& plan);

// The file `path` of the folder `from` becomes FOLDER/files/PATH. kIo when the folder is gone.
Status MoveIntoParts(const std::string& folder, const std::string& from, const std::string& path);
std::string FinishedPath(const std::string& folder, const std::string& path);

// Once the output is whole nobody needs it: what cannot be removed stays.
void RemovePartsFolder(const std::string& folder);

// Beside an output that stands: the folder when it is of this plan or has none, as what earlier
// versions left, and what killed processes left of others.
void ClearLeftParts(const std::string& folder, const std::string& plan);

}  // namespace nxdkit::ops
