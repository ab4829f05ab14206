// A new run that begins where another trainer's has come to: its weights, its optimizer's state,
// and what of its configuration means something here.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/inherit.h"

namespace nxdkit::trainer {

struct InitFrom {
  Inherited inherited;             // model_path and from_model among its keys
  std::vector<std::string> lines;  // for the user: what is taken, what is left and why
};

// `run`: the folder of a run of verl or EasyR1, of one of its steps, or of its actor; anything else
// that a model is read from has no configuration beside it. Errors of the weights are the call's,
// an optimizer's state that cannot be read is left.
Result<InitFrom> ReadInitFrom(const std::string& run);

// A run that goes on keeps the model that it began from, its reference policy, though the other
// trainer's run has newer steps by now; a line says so.
Status KeepOrigin(LoadedConfig& loaded, std::vector<std::string>& lines);

}  // namespace nxdkit::trainer
