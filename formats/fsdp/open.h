// The rank files of an FSDP run, opened as one distributed checkpoint (formats/dcp/folder.h): the
// parameters by their names, their optimizer state under "optimizer.state.NAME.", its options under
// "optimizer.param_groups.NAME.", the scheduler under "lr_scheduler.".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/dtensor/mesh.h"
#include "formats/dtensor/sharding.h"
#include "formats/fsdp/rank_set.h"
#include "lib/system/looker.h"

namespace nxdkit::fsdp {

// How an optimizer's file names its state.
enum class OptimizerForm : uint8_t {
  kNone,           // no files, or no state: no step was taken
  kNames,          // by name, distributed tensors: EasyR1
  kNumbers,        // by the parameter's number, distributed or whole: verl with FSDP2
  kFlatUnits,      // by the number of FSDP1's unit, slices of its flat parameter: verl with FSDP1
  kFlatParameters  // by the parameter's number, slices of it: FSDP1 with use_orig_params
};
std::string_view FormName(OptimizerForm form);

// A name of the model and its tensor in the files.
struct ModelTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  bool placed = false;  // distributed; else every rank has a copy
  bool shared = false;  // a second name of a tensor before it
  std::vector<dtensor::Placement> placements;
};

struct Facts {
  RankSet set;
  std::vector<ModelTensor> tensors;         // in the order of the model's state dict
  std::optional<dtensor::DeviceMesh> mesh;  // rank 0's; nullopt: no tensor is on one
  OptimizerForm form = OptimizerForm::kNone;
  std::vector<std::vector<std::string>> groups;  // names of the parameters of each
  std::vector<uint64_t> rank_bytes;              // sizes of each rank's existing files
};

struct Opened {
  dcp::Folder folder;
  Facts facts;
};

struct OpenOptions {
  std::optional<int> world;  // the run, where the folder has files of several
  // The optimizer's files, if there are any, must be complete and understood; otherwise faults in
  // them are warnings.
  bool optimizer = false;
  // Reads the ranks that are there, and warns of missing ones: for inspection.
  bool partial = false;
};

// Reads the structure of every file, and no tensor data except a mesh's ranks, steps, and padding
// that must be zero. kNotFound naming the missing ranks; kCorrupt for ranks that contradict each
// other, or a file that is another rank's; kUnsupported for state for which no name can be found.
Result<Opened> Open(const std::string& path, const Looker& look, const OpenOptions& options);

}  // namespace nxdkit::fsdp
