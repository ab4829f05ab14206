// The facts of a Megatron-Core checkpoint, as ckpt-inspect shows them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

struct MegatronFacts : KindState {
  std::string layout;     // "Megatron-LM", "verl", "NeMo-RL"
  std::string layers;     // "stacked", "numbered", "stacked and numbered", ""
  std::string optimizer;  // its form; "none"
  std::string common;     // the file of the common state; ""
  bool has_args = false;
  std::optional<int64_t> iteration, tp, pp, ep;
  size_t tensors = 0;
  size_t chunks = 0;
  size_t extra_states = 0;           // objects of Transformer Engine's
  std::vector<std::string> objects;  // others, not the model's
};

Status DescribeMegatron(Survey& survey, const std::string& path, const InputHints& hints);
void AddMegatronFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
