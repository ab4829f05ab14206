// PRIVATE to formats/kinds: what programs put around the names of a model's tensors when they save
// it: torch.compile's "_orig_mod.", a trainer's own "base_model.model.", nothing where
// transformers has "model." (a model saved without its head).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/training/state_keys.h"

namespace nxdkit::kinds {

// The name of a tensor of the model, from the name under which a program stored it.
struct Unwrapping {
  KnowsName knows;
  bool changes = false;  // whether any name does
  std::string outer;     // before the names: "base_model.model."
  std::string lacking;   // what the names of the model have before, and those stored have not

  // A name that is known without a change stays as it is.
  std::string NameOf(std::string_view stored) const;
  std::string Text() const;  // for a warning
};

// What most of the names have around them. Nothing is taken away where two of them would become
// one.
Unwrapping FindUnwrapping(const std::vector<std::string_view>& stored, KnowsName knows);

// The most frequent one; "" where there is none.
std::string MostFrequent(const std::vector<std::string>& wrappers);

}  // namespace nxdkit::kinds
