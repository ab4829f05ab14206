// A new run that starts from the result of another trainer's: its weights, its optimizer's state,
// and those keys of its configuration that have a meaning here.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/inherit.h"

namespace nxdkit::trainer {

struct InitFrom {
  Inherited inherited;             // model_path and from_model among its keys
  std::vector<std::string> lines;  // for the user: keys taken, and keys left with the reason
};

// `run`: the folder of a run of verl or EasyR1, of one of its steps, or of its actor; any other
// source of a model has no configuration. Errors of the weights are errors of the call; an
// optimizer's state that cannot be read is left out.
Result<InitFrom> ReadInitFrom(const std::string& run);

// A continued run keeps the model that it started from as its reference policy, although the other
// trainer's run may have newer steps by now; a line says so.
Status KeepOrigin(LoadedConfig& loaded, std::vector<std::string>& lines);

}  // namespace nxdkit::trainer
