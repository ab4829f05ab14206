// PRIVATE to formats: checks that master weights belong to their weights. An optimizer's files know
// parameters only by number; that a weight is its own master rounded proves that number and name
// belong together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

struct MasterCheck {
  struct Fault {
    uint32_t param = 0;    // of the model
    int64_t elements = 0;  // those that are not their master rounded to either side
    int64_t looked_at = 0;
    double weight = 0;  // the first of them
    double master = 0;
  };
  std::vector<Fault> faults;
  size_t params = 0;  // with both, and sampled
  // The number without a fault in which some element is rounded to the other neighbour, not to
  // nearest even.
  size_t rounded = 0;

  // Whether most are not: training would continue from other weights than the model's.
  bool mostly_others() const;
};

// Reads a few elements of every parameter, the same ones each time, from beginning, middle and end.
Result<MasterCheck> SampleMasters(const BoundArtifact& tag);

// Compares the state of a checkpoint that was bound with it to the weights, and adds a line on the
// result to the artifact. kCorrupt, naming the first, if a weight is not its master weight rounded,
// or a part of the state is missing (CheckEven).
Status ProveState(BoundArtifact& checkpoint);

// The line for all faults; there must be some.
std::string FaultText(const MasterCheck& check, const BoundArtifact& tag);
// One line for all faults, one for other rounding; none if all is well.
std::vector<std::string> TextOf(const MasterCheck& check, const BoundArtifact& tag);

}  // namespace nxdkit::training
