// PRIVATE to formats/kinds: a distributed checkpoint of a run that trains a LoRA adapter: the
// base's weights and the adapter's, or the adapter's alone, by the names that they have in memory.
//
//   base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight       the base's
//   base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight   the adapter's
#pragma once

#include <string>
#include <vector>

#include "formats/adapter/lora_numbering.h"
#include "formats/artifact/bound.h"
#include "formats/dcp/folder.h"
#include "formats/kinds/options.h"

namespace nxdkit::kinds {

// The part of such a checkpoint that is read.
enum class LoraTake : uint8_t {
  kStored,   // all tensors as they are stored, and the optimizer's
  kMerged,   // the base with the adapter merged into it
  kAdapter,  // the adapter alone
  kBase,     // the base without the adapter
};
inline constexpr OptionRow kLoraTakeRow = {"lora", "stored|merged|adapter|base",
                                           "part of a run with a LoRA adapter to read", kAsInput};

// Whether a tensor of this name is an adapter's. Names that PEFT does not use are the base's.
bool IsOfAdapter(std::string_view key);

// Whether there is an adapter in the checkpoint.
bool HasLora(const Artifact& artifact);

// The part of the artifact that is read: as the user says, else the merged model, or the adapter if
// there is nothing else. kStored for one without an adapter.
LoraTake LoraTakeOf(const Artifact& artifact, const InputHints& hints);

// kUsage if the user asks for a part that the checkpoint does not have.
Status CheckLoraTake(const Artifact& artifact, const InputHints& hints);

// Keeps the base's weights in the artifact, under the names that they have without an adapter. The
// optimizer's state belongs to the adapter, and is left out.
void KeepBase(Artifact& artifact, const InputHints& hints);

// Fills in `out`, the adapter in the checkpoint `artifact`. Its configuration comes from
// --lora-alpha, else from adapter_config.json, else from verl's lora_train_meta.json, in the
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
