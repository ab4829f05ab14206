// Finds and reads NxD training shard sets, in every style of FORMAT.md's decision table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::nxd {

enum class SetStyle : uint8_t {
  kV2,          // <tag>/model/dp_rank_00_tp_rank_TT_pp_rank_PP.pt
  kV2Xser,      // ... with .pt.tensors/ and .pt.info.pt
  kInlineXser,  // ... with an empty .pt.tensors/: the reference converter's --save_xser
  kV1,          // tp_rank_TT_pp_rank_PP/checkpoint.pt
  kV1Xser,      // the file tp_rank_TT_pp_rank_PP, and tp_rank_TT_pp_rank_PP.tensors/
  kV0,          // the file tp_rank_TT
  kNnm,         // tp_rank_TT_pp_rank_PPP/model_optim_rng.ckpt
};
std::string_view SetStyleName(SetStyle style);  // "v2", "v2 xser", ...

struct ShardFile {
  std::string path;
  int tp = 0;
  int pp = 0;
  int ep = 0;
  int dp = 0;  // of optimizer files; model files are rank 0's
};

struct SetLocation {
  std::string shard_folder;
  std::string tag_folder;  // has `checkpoint` and `done`; equals shard_folder for v1
  std::string root;        // parent of the tag folder
  std::string tag;         // name of the tag folder
  SetStyle style = SetStyle::kV2;
  bool has_markers = false;  // the style has `done`
  bool finished = false;     // `done` exists
  int tp = 0;
  int pp = 0;
  int ep = 0;
  std::vector<ShardFile> files;  // complete grid, ordered by tp, pp, ep
  std::vector<std::string> warnings;
  std::optional<Choice> choice;  // a root with several finished tags, or one named among several
};

// `path`: an NxD root (its newest finished tag, or `tag`), a tag folder, or the folder that holds
// the shards. The newest tag has the highest number in its name; the times of `done` count where
// names do not tell (FindNewest), and kUsage where neither does. kNotFound when there is no shard
// set, kUnsupported for other NxD files (refuse.h); kCorrupt when the grid has holes (names the
// first missing files). A tag named *.partial is unfinished output, and never found.
Result<SetLocation> Locate(const std::string& path, const std::optional<std::string>& tag,
                           const Looker& look = {});

// Whether Locate could find something at the path: by names only.
Result<bool> LooksLikeShardSet(const std::string& path, const Looker& look = {});

// The tags of an NxD root, sorted by name: the folders that have a marker, or (a converter's
// output) shards in model/. Empty when `path` is not a root.
struct TagFolder {
  std::string name;
  bool finished = false;   // `done` exists
  TimeStamp done_at = {};  // when it was written
};
Result<std::vector<TagFolder>> ListTags(const std::string& path, const Looker& look = {});

// The ranks of one main file of a set, according to its path; nullopt for any other path.
Result<std::optional<ShardFile>> ShardOfPath(const std::string& path);

struct Shard {
  ShardFile file;
  TensorFile tensors;  // in state dict order; references resolved
};

struct ShardSet {
  SetLocation location;
  std::vector<Shard> shards;         // as location.files
  std::vector<std::string> skipped;  // entries other than the weights: "epoch", ...
  // The skipped entry that holds an optimizer's state: "optimizer" in NxD's examples,
  // "optimizer_states" in Lightning's; "" for none.
  std::string optimizer_entry;
};

// Reads the structure of every shard; NNM names become those of NxDT's Megatron models. References
// are resolved in "<main>.tensors/"; a tensor whose file is missing is kCorrupt with its name and
// path, except when every file of the folder is missing (weights left out on purpose: kUnsupported,
// saying where they are).
Result<ShardSet> Read(SetLocation location, const Looker& look = {});

// One main file by itself: any file written by torch_xla.utils.serialization.save.
Result<ShardSet> ReadMainFile(const std::string& path);

// ParentPath that also resolves "." and "..".
std::string FolderAbove(const std::string& path);

}  // namespace nxdkit::nxd
