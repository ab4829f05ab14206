// PRIVATE to formats/kinds: what a run that trains a LoRA adapter leaves in a distributed
// checkpoint: the base's weights and the adapter's, or these alone, by the names that they have
// in memory.
//
//   base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight       of the base
//   base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight   of the adapter
#pragma once

#include <string>
#include <vector>

#include "formats/adapter/lora_parts.h"
#include "formats/artifact/bound.h"
#include "formats/dcp/folder.h"
#include "formats/kinds/options.h"

namespace nxdkit::kinds {

// What is taken of such a checkpoint.
enum class LoraTake : uint8_t {
  kStored,   // all tensors as they are stored, and the optimizer's
  kMerged,   // the base with the adapter merged into it
  kAdapter,  // the adapter alone
  kBase,     // the base without the adapter
};
inline constexpr OptionRow kLoraTakeRow = {"lora", "stored|merged|adapter|base",
                                           "part of a run with a LoRA adapter to read", kAsInput};

// Whether a tensor of this name is an adapter's. One that PEFT does not give is the base's.
bool IsOfAdapter(std::string_view key);

// Whether there is an adapter in the checkpoint.
bool HasLora(const Artifact& artifact);

// What is taken of an artifact of this sort: what the user says, else the merged model, or the
// adapter where there is nothing else. Of one without an adapter kStored.
LoraTake LoraTakeOf(const Artifact& artifact, const InputHints& hints);

// kUsage where the user asks for what is not in the checkpoint.
Status CheckLoraTake(const Artifact& artifact, const InputHints& hints);

// Leaves the base's weights in the artifact, under the names that they have without an adapter. The
// optimizer's state is the adapter's, and left out.
void KeepBase(Artifact& artifact, const InputHints& hints);

// Fills in `out`, the adapter that is in the checkpoint `artifact`. What it was trained with is
// said by --lora-alpha, else by adapter_config.json, else by verl's lora_train_meta.json, in the
// folder, in lora_adapter or huggingface below it, or above it.
Status BindLoraOf(BoundArtifact& out, const Artifact& artifact, const LoraBase& base,
                  nxd::LoraSharing sharing, const InputHints& hints);

// --- for kinds whose artifacts are read as distributed checkpoints (kind.h)
bool HoldsLoraDcp(const Artifact& artifact, const InputHints& hints);
Result<std::vector<std::string>> LoraFoldersDcp(const std::string& path, const InputHints& hints,
                                                const Looker& look);
Status BindLoraDcp(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints);

}  // namespace nxdkit::kinds
