// Finds the distributed checkpoint of a run of Megatron-Core's trainers: a folder whose
// metadata.json says "torch_dist", among the names around it. Format facts: FORMAT.md.
//
// RUN/latest_checkpointed_iteration.txt, RUN/iter_0000020/     Megatron-LM, slime, Bridge
// step_20/policy/weights/iter_0000000/                         NeMo-RL
// global_step_20/actor/dist_ckpt/                              verl until early 2026
// global_step_20/actor/ckpt_contents.json, model/dist_ckpt/    verl
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::megatron {

struct Found {
  std::string root;       // the checkpoint, as the user knows it
  std::string model;      // the folder of the model's distributed checkpoint
  std::string optimizer;  // the optimizer's, usually the same; "" for none
  std::string layout;     // "Megatron-LM", "verl", "NeMo-RL": the layout around it
  std::vector<std::string> config_folders;  // which may have a config.json
  std::optional<Choice> choice;             // among several iterations
  std::vector<std::string> warnings;
};

// Whether there is a checkpoint: reads names only, and a metadata.json.
Result<bool> HasCheckpoint(const std::string& path, const Looker& look);

// `tag`: the iteration ("20" is iter_0000020 or step_20). Without it the tracker's, otherwise the
// newest by number; one that is not whole is skipped. kCorrupt for a save that was not completed;
// kUnsupported, by name, for Megatron's other formats; kNotFound for a missing iteration.
Result<Found> Find(const std::string& path, const std::optional<std::string>& tag,
                   const Looker& look);

}  // namespace nxdkit::megatron
