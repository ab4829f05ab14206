// PRIVATE to trainer/loop. Whether responses can have the format that a reward asks for: where they
// cannot, nothing is learnt from it, and no number of the run says so.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

struct FormatQuestion {
  std::string_view reward;                 // its name
  std::span<const std::string_view> tags;  // FormatTags of it
  std::string_view prompt;                 // a prompt's text, as the model sees it
  const Tokenizer* tokenizer = nullptr;
  bool skips_special = true;  // worker.reward.skip_special_tokens
};

// Why not, and what can be done; "" where they can, or where the reward asks for no format.
std::string FormatWarning(const FormatQuestion& question);

}  // namespace nxdkit::trainer
