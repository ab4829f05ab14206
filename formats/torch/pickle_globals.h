// PRIVATE: allow-lists: every global that a pickle may name, and its meaning here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/tensor/dtype.h"

namespace nxdkit::torch {

enum class GlobalKind : uint8_t {
  // Callables of plain Python.
  kOrderedDict,
  kCounter,
  kSet,
  kInnerClass,  // getattr(listed class, "NAME"): another listed class
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
  // A class or function of plain data: its arguments, and the state that BUILD gives it, are kept
  // under its name. Only the lists of other readers have such.
  kRecord,
  // An unknown class or function. A call of it gives a value without contents.
  kInert,
  // Known, and refused by name with a hint.
  kRefused,
};

struct Global {
  std::string name;  // "torch._utils._rebuild_tensor_v2"
  GlobalKind kind;
  Dtype dtype = Dtype::kU8;
  const char* hint = "";
};

// The allow-list of one kind of pickle. Immutable; thread-safe.
class GlobalTable {
 public:
  // `needed_by`, for messages: "that plain tensors and containers need"; `hint`: what to do about a
  // global that is not on the list.
  GlobalTable(std::vector<Global> globals, std::string needed_by, std::string hint);
  // A table on which any other global is kInert, except those that run code when torch loads them,
  // which are refused.
  static GlobalTable OfAnything(std::vector<Global> globals);
  // kUnsupported naming "module.name" for a global that is not on the list. The result lives as
  // long as the table.
  Result<const Global*> Find(std::string_view module, std::string_view name) const;

 private:
  std::vector<Global> globals_;  // sorted by name
  std::string needed_by_;
  std::string hint_;
  bool keeps_others_ = false;
};

// The list of torch.load(weights_only=True) in torch 2.15, and the two reference classes of NxD's
// checkpoints.
const GlobalTable& TorchGlobals();
// TorchGlobals, and DTensor and ShardedTensor with the globals that their pickles name, in torch
// 2.4 to 2.15: records. A distributed tensor is a record of kRebuildFromType, called with
// (kRebuildWrapper, its class, arguments, state).
const GlobalTable& DistributedGlobals();
inline constexpr char kRebuildFromType[] = "torch._tensor._rebuild_from_type_v2";
inline constexpr char kRebuildWrapper[] = "torch._utils._rebuild_wrapper_subclass";
inline constexpr char kDTensorClass[] = "torch.distributed.tensor.DTensor";
// DistributedGlobals, and numpy's arrays as records: for the state of a run outside its tensors.
const GlobalTable& RunStateGlobals();
// RunStateGlobals, with any other class as a value without contents: for the objects that a trainer
// saves along with its tensors. Readers of such a file check value by value.
const GlobalTable& AnyGlobals();
void AddDtypes(std::vector<Global>& globals);  // All of torch's dtypes.

// "FloatStorage"; nullptr for a dtype whose storages are untyped.
const char* StorageClassName(Dtype dtype);

}  // namespace nxdkit::torch
