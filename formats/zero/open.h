// A DeepSpeed tag, opened as one distributed checkpoint (formats/dcp/folder.h): the weights by
// their names, the optimizer's state under "optimizer.state.NAME.", including master weights
// (dcp::kMasterWeights), its options under "optimizer.param_groups.NAME.", the scheduler under
// "lr_scheduler.".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/zero/tag_files.h"
#include "lib/system/looker.h"

namespace nxdkit::zero {

struct Facts {
  int stage = 0;
  std::string form;  // "ZeRO stage 2", "BF16_Optimizer", "universal"
  int world = 1;     // ranks that the optimizer is cut over
  size_t trained = 0;
  size_t frozen = 0;
  size_t buffers = 0;
  std::vector<std::vector<std::string>> groups;  // names of the trained parameters of each
  std::optional<int64_t> steps;
  std::string version;              // of DeepSpeed
  std::vector<std::string> others;  // keys that the script added, left out
  // Dtypes of the module's weights that the checkpoint has in F32 only, by key.
  std::map<std::string, Dtype> dtypes;
  // The consistency checks that passed, in lines for people: "the flat groups of 3 ranks have the
  // 8385 elements of 27 parameters".
  std::vector<std::string> proofs;
};

struct Opened {
  dcp::Folder folder;
  Facts facts;
};

struct OpenOptions {
  // The optimizer's state, if there is any, must be understood, and its padding be zero; otherwise
  // faults in it are warnings.
  bool optimizer = false;
};

// Reads the structure of every file, and no tensor data except steps, and padding that must be
// zero.
Result<Opened> Open(const TagFiles& files, const OpenOptions& options);

}  // namespace nxdkit::zero
