// A tag of DeepSpeed's, opened as one distributed checkpoint (formats/dcp/folder.h): the weights
// by their names, what the optimizer keeps under "optimizer.state.NAME.", master weights beside
// weights among it (nxd::kMasterWeights), its options under "optimizer.param_groups.NAME.", the
// scheduler under "lr_scheduler.".
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
  std::vector<std::string> others;  // keys that the script has added, which are left
  // Dtypes of the module, by key, of weights that are here in F32 alone.
  std::map<std::string, Dtype> dtypes;
  // Lines for people on what was found to fit: "the flat groups of 3 ranks have the 8385 elements
  // of 27 parameters".
  std::vector<std::string> proofs;
};

struct Opened {
  dcp::Folder folder;
  Facts facts;
};

struct OpenOptions {
  // The optimizer's state, where there is some, must be understood, and its padding be zero; else
  // what is wrong with it is a warning.
  bool optimizer = false;
};

// Reads the structure of every file, never tensor data but steps, and padding that must be zero.
Result<Opened> Open(const TagFiles& files, const OpenOptions& options);

}  // namespace nxdkit::zero
