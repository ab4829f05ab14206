// PRIVATE to formats: opens and binds a Hugging Face folder, or an adapter as PEFT saves it: one
// file of tensors, with their meaning in adapter_config.json.
#pragma once

#include <string>

#include "formats/adapter/lora_numbering.h"
#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "lib/system/looker.h"

namespace nxdkit::kinds {

Result<bool> IsHfFile(const std::string& path);
// The folder, next to a trainer's shards, of the model in transformers' form.
Result<std::string> PlaceOfHf(const std::string& path, const Looker& look);
Status OpenHf(Artifact& artifact, const InputHints& hints);

Status BindHf(BoundArtifact& out, const InputHints& hints);

// The files of adapters' tensors in a folder, as PEFT and NxD name them, in the order in which PEFT
// looks for them. Several files come from several saves.
Result<std::vector<std::string>> LoraFiles(const std::string& folder, const Looker& look = {});
// The first; "" if there is none.
Result<std::string> LoraFile(const std::string& folder, const Looker& look = {});

// Whether this is an adapter in PEFT's form: a folder, or its file of tensors.
Result<bool> LooksLikePeft(const std::string& path, const Looker& look = {});

// Fills in `out`, whose artifact has its path.
Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                const InputHints& hints);

}  // namespace nxdkit::kinds
