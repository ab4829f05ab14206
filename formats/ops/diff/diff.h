// The differences between two models, parameter by parameter, whatever their layouts.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"
#include "formats/ops/diff/diff_kernels.h"
#include "formats/ops/diff/layers.h"

namespace nxdkit::ops {

// A parameter of both models.
struct ParamDiff {
  std::string name;
  Shape shape;
  Dtype a_dtype = Dtype::kF32;
  Dtype b_dtype = Dtype::kF32;
  DiffTally tally;
  Squares squares;
  // The index of tally.worst in the parameter, and the values there; empty if nothing differs.
  Shape worst_index;
  std::string worst_a;
  std::string worst_b;
  bool is_state = false;  // of the optimizer: not one of the weights
};

struct DiffReport : Said {
  const Kind* a_kind = nullptr;
  const Kind* b_kind = nullptr;
  std::vector<ParamDiff> params;    // worst first: NaNs and infinities, then the largest error
  DiffTally total;                  // without `worst`
  std::vector<LayerMove> layers;    // of the weights, in the order of the model
  std::vector<ModuleMove> modules;  // of these layers
  LayerMove update;                 // all of these together
  // Parameters that only one has, with different shapes, or with types that cannot be compared:
  // check "only in a", "only in b", "shape" or "dtype".
  std::vector<Finding> findings;

  bool differs() const { return total.beyond > 0 || !findings.empty(); }
};

struct DiffSide {
  std::string path;
  const Kind* kind = nullptr;  // null: recognised
  InputHints hints;
};

struct DiffRequest {
  DiffSide a;
  DiffSide b;
  std::vector<DiffSide> later;  // the versions after B, for DiffVersions
  bool optimizer = false;       // the state too, and the master weights as the weights
  DiffLimits limits;
  RunOptions run;
};

// Opens A and B, checks their copies, and compares; only primary places are compared. The result
// does not depend on run.jobs.
Result<DiffReport> Diff(const DiffRequest& request);

// The way of a model through several versions.
struct VersionsReport {
  DiffReport whole;               // the first version against the last
  std::vector<DiffReport> steps;  // each against the next, without `params`; none for two versions

  bool differs() const;
};

// The same for A, B and the later versions. Each is opened and checked once.
Result<VersionsReport> DiffVersions(const DiffRequest& request);

}  // namespace nxdkit::ops
