// The files of the tokenizer that was trained with go with the weights, so that a checkpoint, an
// exported model and a rollout bundle load by themselves: from worker.actor.model.tokenizer_path
// when that is another folder than the model's, and with data.override_chat_template.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct TextFiles {
  std::string tokenizer;      // folder; "": the model's own files are right
  std::string chat_template;  // in the place of the tokenizer's; "": that one
};

// Into `folder`, which holds a model and the files that were beside its source. The tokenizer
// files there are all replaced: two tokenizers are not mixed. What belongs to the model
// (config.json, generation_config.json, ...) stays, but is taken from the tokenizer's folder where
// the model has none.
Status WriteTextFiles(const TextFiles& files, const std::string& folder);

}  // namespace nxdkit::trainer
