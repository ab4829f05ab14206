#include "formats/kinds/carry_training.h"

#include "lib/system/folders.h"

namespace nxdkit::ops {

Status CarryTrainingFile(OutputBuilder& builder, const std::string& folder, const std::string& name,
                         std::string to) {
  NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
  if (there) builder.plan.copies.push_back({std::move(to), JoinPath(folder, name)});
  return OkStatus();
}

}  // namespace nxdkit::ops
