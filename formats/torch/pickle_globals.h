// PRIVATE: the allow-list: every global a pickle may name, and what it stands for here. It is the
// list of torch.load(weights_only=True) of torch 2.15, and the two reference classes of NxD's
// checkpoints.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::torch {

enum class GlobalKind : uint8_t {
  // Callables of plain Python.
  kOrderedDict,
  kCounter,
  kSet,
  kByteArray,
  kEncode,
  kNamedCall,  // a call gives an OpaqueObject of the global's name: complex, torch.device, ...
  kSize,
  // Values.
  kDtype,         // `dtype` is set
  kOpaque,        // no call makes sense
  kTensorClass,   // torch.Tensor and torch.nn.parameter.Parameter, as the type of a rebuild
  kStorageClass,  // `dtype` is set
  kUntypedStorageClass,
  // Functions that rebuild tensors.
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildParameter,
  kRebuildParameterWithState,
  kRebuildFromTypeV2,
  kRebuildFromCpuTensor,
  // Classes of references to tensors in other files.
  kReference,
  kInternalReference,
  // Known, and refused by name with a hint.
  kRefused,
};

struct Global {
  std::string name;  // "torch._utils._rebuild_tensor_v2"
  GlobalKind kind;
  Dtype dtype = Dtype::kU8;
  const char* hint = "";
};

// kUnsupported naming "module.name" for what is not on the list. The result lives for ever.
Result<const Global*> FindGlobal(std::string_view module, std::string_view name);

// "FloatStorage"; nullptr for a dtype whose tensors are stored untyped.
const char* StorageClassName(Dtype dtype);

}  // namespace nxdkit::torch
