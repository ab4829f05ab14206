#include "formats/artifact/optimizer/dcp_keys.h"

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::ops {

std::pair<std::string, std::string> SplitDcpKey(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {std::string(key), ""};
  return {std::string(key.substr(0, dot)), std::string(key.substr(dot + 1))};
}

bool IsDcpNumber(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name) {
  for (const std::string& candidate : {name, name.substr(name.starts_with("model.") ? 6 : 0)})
    if (const auto found = known.find(candidate); found != known.end()) return &found->second;
  if (IsDcpNumber(name))
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
