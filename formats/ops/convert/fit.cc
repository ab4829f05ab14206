#include "formats/ops/convert/fit.h"

#include "lib/base/errors.h"

namespace nxdkit::ops {

Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_ASSIGN(const hardware::Instance* const instance,
                hardware::FindInstance(*request.instance));
  NXDKIT_ASSIGN(std::optional<hardware::Fit> fit,
                conversion.target->FitOn(conversion.source,
                                         {*instance, request.training, conversion.output}));
  if (!fit) return BadUsage("--instance: this output is not laid out for an instance");
  constexpr hardware::Levers kLevers = {
      .parallel = "--tp or --pp", .micro_batch = "--seq", .cache = "--bs or --seq"};
  NXDKIT_TRY(hardware::CheckFit(*fit, kLevers).in(request.output));
  return *std::move(fit);
}

}  // namespace nxdkit::ops
