// PRIVATE to formats/artifact: the optimizer's state of a distributed checkpoint. It is kept by
// parameter, in the names that the parameters have there:
//
//   optimizer.state.NAME.exp_avg        a tensor like the parameter
//   optimizer.state.NAME.step           a tensor without dimensions
//   optimizer.param_groups.NAME.lr      an object for each option
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/artifact/bind.h"
#include "formats/dcp/layout.h"

namespace nxdkit::ops {

inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
inline constexpr std::string_view kOptimizerState = "optimizer.state.";
inline constexpr std::string_view kOptimizerGroups = "optimizer.param_groups.";

// All tensors that a checkpoint of this model can have, in every style, by key.
using DcpTensors = std::unordered_map<std::string, dcp::GlobalTensor>;

// Binds it into `out`, whose model is bound; nothing when there is none. kCorrupt for state of no
// parameter's shape, kUnsupported for state of a parameter that is not known.
Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known);

}  // namespace nxdkit::ops
