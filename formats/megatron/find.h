// Where a run of Megatron-Core's trainers keeps a distributed checkpoint: a folder with
// metadata.json that says "torch_dist", and the names around it. Format facts: FORMAT.md beside
// this file.
//
//   RUN/latest_checkpointed_iteration.txt, RUN/iter_0000020/     Megatron-LM, slime, Bridge
//   step_20/policy/weights/iter_0000000/                         NeMo-RL
//   global_step_20/actor/dist_ckpt/                              verl until early 2026
//   global_step_20/actor/ckpt_contents.json, model/dist_ckpt/    verl
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::megatron {

struct Found {
  std::string root;       // what the user knows the checkpoint by
  std::string model;      // the folder of the distributed checkpoint with the model
  std::string optimizer;  // that with the optimizer; the same one, as a rule; "" for none
  std::string layout;     // "Megatron-LM", "verl", "NeMo-RL": whose names are around it
  std::vector<std::string> config_folders;  // where a config.json may be
  std::optional<Choice> choice;             // of several iterations
  std::vector<std::string> warnings;
};

// Whether there is one: looks at names alone, but for a metadata.json.
Result<bool> HasCheckpoint(const std::string& path, const Looker& look);

// `tag`: which iteration ("20" is iter_0000020 or step_20). Without it that of the tracker, else
// the newest by number; one that is not whole is passed over. kCorrupt for a save that did not come
// to its end; kUnsupported, by name, for Megatron's other formats; kNotFound for what is not there.
Result<Found> Find(const std::string& path, const std::optional<std::string>& tag,
                   const Looker& look);

}  // namespace nxdkit::megatron
