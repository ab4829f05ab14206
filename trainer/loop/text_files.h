// The files of the training tokenizer accompany the weights, so that a checkpoint, an exported
// model and a rollout bundle load by themselves: from worker.actor.model.tokenizer_path if that is
// not the model's folder, and with data.override_chat_template.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct TextFiles {
  std::string tokenizer;      // folder; "": the model's own files are right
  std::string chat_template;  // replaces the tokenizer's; "": keep that one
};

// Writes into `folder`, which holds a model and the files from next to its source. All tokenizer
// files there are replaced: two tokenizers are never mixed. Files of the model (config.json,
// generation_config.json, ...) are kept, and copied from the tokenizer's folder only if the model
// has none.
Status WriteTextFiles(const TextFiles& files, const std::string& folder);

}  // namespace nxdkit::trainer
