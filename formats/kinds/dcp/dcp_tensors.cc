#include "formats/kinds/dcp/dcp_tensors.h"

#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {

Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name) {
  const std::string plain = WithoutWrappers(name);
  for (const std::string& candidate :
       {plain, plain.substr(plain.starts_with(kModelPrefix) ? kModelPrefix.size() : 0)})
    if (const auto found = known.find(candidate); found != known.end()) return &found->second;
  if (IsStateNumber(name))
    return Unsupported(
               "the optimizer's parameters have numbers and no names (found {}), as "
               "optimizer.state_dict() gives them",
               name)
        .hint(
            "save what get_optimizer_state_dict() of torch.distributed.checkpoint.state_dict "
            "returns, which has names; --no-optimizer leaves the optimizer's state out");
  return Unsupported("the optimizer keeps something of a parameter {}, which the model lacks", name)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace nxdkit::ops
