// PRIVATE to trainer/loop. Checks that responses can have the format that a reward asks for: if
// they cannot, nothing is learnt from it, and no metric of the run shows it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

struct FormatQuestion {
  std::string_view reward;                 // its name
  std::span<const std::string_view> tags;  // FormatTags of it
  std::string_view prompt;                 // FormatTags of the reward
  const Tokenizer* tokenizer = nullptr;
  bool skips_special = true;  // worker.reward.skip_special_tokens
};

// The reason why they cannot, with advice; "" if they can, or if the reward asks for no format.
std::string FormatWarning(const FormatQuestion& question);

}  // namespace nxdkit::trainer
