// PRIVATE to formats/kinds/dcp: the tensors that a checkpoint of a model can have, by key.
#pragma once

#include <string>
#include <unordered_map>

#include "formats/dcp/layout.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

// All of them, in every style.
using DcpTensors = std::unordered_map<std::string, dcp::GlobalTensor>;

// The tensor that the optimizer calls `name`, with or without "model." before it. kUnsupported when
// the model has none, or when the optimizer has numbers for names.
Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name);

}  // namespace nxdkit::ops
