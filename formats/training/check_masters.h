// PRIVATE to formats: whether master weights are those of the weights that they are said
// to be of. An optimizer's files know parameters by number only; that a weight is its own master
// rounded is what proves number and name to belong together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

struct MasterCheck {
  struct Fault {
    uint32_t param = 0;    // of the model
    int64_t elements = 0;  // that are not their master rounded to either side
    int64_t looked_at = 0;
    double weight = 0;  // the first of them
    double master = 0;
  };
  std::vector<Fault> faults;
  size_t params = 0;  // that have both, and were looked at
  // Of these without a fault: not to nearest even in some element, but to the other neighbour.
  size_t rounded = 0;

  // Most are not: training would go on from other weights than the model's.
  bool mostly_others() const;
};

// Reads a few elements of every parameter, the same ones each time, from beginning, middle and end.
Result<MasterCheck> SampleMasters(const BoundArtifact& tag);

// Compares the state of a checkpoint that was bound with it to the weights, and adds a line of what
// was proved to the artifact. kCorrupt, naming the first, where a weight is not the master weight
// beside it rounded, or a part of the state is missing (CheckEven).
Status ProveState(BoundArtifact& checkpoint);

// The line for all faults, of which there are some.
std::string FaultText(const MasterCheck& check, const BoundArtifact& tag);
// One line for all faults, one for what is rounded otherwise; none when all is as it should be.
std::vector<std::string> TextOf(const MasterCheck& check, const BoundArtifact& tag);

}  // namespace nxdkit::training
