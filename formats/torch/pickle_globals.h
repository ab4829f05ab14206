// PRIVATE: allow-lists: every global a pickle may name, and what it stands for here.
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
  kInnerClass,  // getattr(a class of the list, "NAME"): another class of the list
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
  // A class or function of plain data: what it is called with, and the state that BUILD gives it,
  // are kept under its name. Only other readers' lists have some.
  kRecord,
  // A class or function that nobody here knows. What it makes is a value without contents.
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

// The list of one kind of pickle. Immutable; thread-safe.
class GlobalTable {
 public:
  // `needed_by`: "that plain tensors and containers need", for messages; `hint`: what to do about a
  // global that is not on the list.
  GlobalTable(std::vector<Global> globals, std::string needed_by, std::string hint);
  // The same, and any other global is kInert but for those that run code when torch loads them,
  // which are refused.
  static GlobalTable OfAnything(std::vector<Global> globals);
  // kUnsupported naming "module.name" for what is not on the list. The result lives as long as the
  // table.
  Result<const Global*> Find(std::string_view module, std::string_view name) const;

 private:
  std::vector<Global> globals_;  // sorted by name
  std::string needed_by_;
  std::string hint_;
  bool keeps_others_ = false;
};

// That of torch.load(weights_only=True) of torch 2.15, and the two reference classes of NxD's
// checkpoints.
const GlobalTable& TorchGlobals();
// The same, and DTensor and ShardedTensor with what their pickles name, in torch 2.4 to 2.15:
// records, of which a distributed tensor is one of kRebuildFromType, called with (kRebuildWrapper,
// its class, arguments, state).
const GlobalTable& DistributedGlobals();
inline constexpr char kRebuildFromType[] = "torch._tensor._rebuild_from_type_v2";
inline constexpr char kRebuildWrapper[] = "torch._utils._rebuild_wrapper_subclass";
inline constexpr char kDTensorClass[] = "torch.distributed.tensor.DTensor";
// The same, and numpy's arrays as records: for what a run keeps beside its tensors.
const GlobalTable& RunStateGlobals();
// The same, with any other class as a value without contents: for what a trainer has put beside its
// tensors. What is read of such a file is looked at value by value.
const GlobalTable& AnyGlobals();
void AddDtypes(std::vector<Global>& globals);  // All of torch's dtypes.

// "FloatStorage"; nullptr for a dtype whose tensors are stored untyped.
const char* StorageClassName(Dtype dtype);

}  // namespace nxdkit::torch
