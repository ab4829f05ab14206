// PRIVATE to formats/kinds: the wrappers that programs put around the names of a model's tensors
// when they save it: torch.compile's "_orig_mod.", a trainer's own "base_model.model.", or a
// missing "model." of transformers (a model saved without its head).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/training/state_keys.h"

namespace nxdkit::kinds {

// Maps the stored name of a tensor to its name in the model.
struct Unwrapping {
  KnowsName knows;
  bool changes = false;  // whether any name does
  std::string outer;     // before the names: "base_model.model."
  std::string lacking;   // the prefix that the model's names have and the stored ones lack

  // A known name stays as it is.
  std::string NameOf(std::string_view stored) const;
  std::string Text() const;  // for a warning
};

// The wrapper around most of the names. Nothing is removed if two of them would become one.
Unwrapping FindUnwrapping(const std::vector<std::string_view>& stored, KnowsName knows);

// The most frequent one; "" if there is none.
std::string MostFrequent(const std::vector<std::string>& wrappers);

}  // namespace nxdkit::kinds
