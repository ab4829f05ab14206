// The optimizer state of an NxD tag: optim/ next to model/, one file per rank.
//
// Every file is a dict that identifies its parameters by number only (a pid: the running index over
// all parameters of all groups); param_order.h finds the tensor of the model for each number.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/nxd/shard_set.h"
#include "formats/torch/pickle_value.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::nxd {

inline constexpr char kMasterWeights[] = "sharded_master_weights";

enum class OptimizerStyle : uint8_t {
  kZero1,       // dp_rank_DD_tp_rank_TT_pp_rank_PP.pt: each data parallel rank has its rows
  kMerged,      // full_tp_rank_TT_pp_rank_PP.pt: the rows together (nxd_convert_zero_checkpoints)
  kReplicated,  // dp_rank_00_...: a plain optimizer, the same on every data parallel rank
  kNamed,       // not in a tag: by parameter, in a torch distributed checkpoint
};
// "zero1", "merged", "replicated", "dcp"
std::string_view OptimizerStyleName(OptimizerStyle style);

// "optim/dp_rank_01_tp_rank_03_pp_rank_00.pt"; kMerged: "optim/full_tp_rank_03_pp_rank_00.pt".
std::string OptimizerFileName(OptimizerStyle style, int dp_rank, int tp_rank, int pp_rank);

// Whether a path within a checkpoint is that of an optimizer file.
bool IsOptimizerPath(std::string_view path);

struct OptimizerLocation {
  std::string folder;
  bool merged = false;
  int tp = 0;
  int pp = 0;
  int dp = 0;
  std::vector<ShardFile> files;  // complete grid, ordered by tp, pp, dp
};

// nullopt when the tag has no optim folder, or an empty one. kUnsupported, by name, for forms that
// cannot be mapped: expert parallel, torch distributed checkpoint, legacy; kCorrupt when two forms
// are mixed or the grid has holes.
Result<std::optional<OptimizerLocation>> LocateOptimizer(const std::string& tag_folder);

// One item of an optimizer's state for a parameter: "exp_avg", "step".
struct StateEntry {
  std::string name;
  std::optional<StoredTensor> tensor;
  torch::PickleValue value;  // if it is not a tensor
};

struct ParamState {
  std::optional<std::vector<StateEntry>> entries;  // in the file's order; nullopt before a step
  std::optional<StoredTensor> master;              // sharded_master_weights
  std::optional<Shape> shape;  // shape_info: of the whole tensor on this tp, pp rank
};

struct OptimizerShard {
  ShardFile file;
  std::vector<std::string> keys;  // of the file's dict, in its order
  // param_groups; each with its key "params", whose numbers are also in `params`.
  std::vector<torch::PickleDict> groups;
  std::set<std::string> tensor_options;  // tensors in the file; numbers in `groups`
  std::vector<int64_t> group_sizes;      // pids count from 0 through all groups
  std::map<int64_t, ParamState> state;
  bool shapes_are_sizes = false;  // shape_info has torch.Size, not list
  uint64_t file_bytes = 0;
  std::string format;  // of the main file: "torch zip", "torch legacy"

  bool Has(std::string_view key) const;
  int64_t param_count() const;
};

struct OptimizerSet {
  OptimizerLocation location;
  OptimizerStyle style = OptimizerStyle::kZero1;
  std::vector<OptimizerShard> shards;  // as location.files
};

// The rows of each of `dp` ranks for a tensor of `rows`; zero rows fill up the last ones.
int64_t ZeroRows(int64_t rows, int64_t dp);

// Reads the structure of every file; references are resolved. kUnsupported for keys and values
// without a known meaning: state that is not understood is not carried over.
Result<OptimizerSet> ReadOptimizer(OptimizerLocation location);

}  // namespace nxdkit::nxd
