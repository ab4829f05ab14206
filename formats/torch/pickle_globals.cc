#include "formats/torch/pickle_globals.h"
#include "lib/base/errors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

namespace nxdkit::torch {
namespace {

constexpr char kDense[] = "save the dense tensor (Tensor.to_dense()) instead";
constexpr char kQuantized[] = "save the dequantized tensor (Tensor.dequantize()) instead";
constexpr char kMeta[] = "the tensor was saved from the meta device and has no data";
constexpr char kSubclass[] = "save the plain tensors that the subclass wraps instead";
constexpr char kNumpy[] = "convert numpy values to Python numbers or torch tensors before saving";
constexpr char kXla[] =
    "save with xm.save or nxd.save_checkpoint, or move the tensors to the CPU first";
constexpr char kDTensor[] = "save full_tensor() or to_local() of distributed tensors instead";

struct Row {
  const char* name;
  GlobalKind kind;
  const char* hint = "";
};

// "builtins" is spelled "__builtin__" by protocol 2; FindGlobal maps it.
constexpr Row kRows[] = {
    {"collections.OrderedDict", GlobalKind::kOrderedDict},
    {"collections.Counter", GlobalKind::kCounter},
    {"builtins.set", GlobalKind::kSet},
    {"builtins.bytearray", GlobalKind::kByteArray},
    {"builtins.bytes", GlobalKind::kByteArray},  // b"" in protocol 2
    {"builtins.complex", GlobalKind::kNamedCall},
    {"_codecs.encode", GlobalKind::kEncode},
    {"torch.Size", GlobalKind::kSize},
    {"torch.device", GlobalKind::kNamedCall},
    {"torch.serialization._get_layout", GlobalKind::kNamedCall},
    {"torch.per_tensor_affine", GlobalKind::kOpaque},
    {"torch.per_tensor_symmetric", GlobalKind::kOpaque},
    {"torch.per_channel_affine", GlobalKind::kOpaque},
    {"torch.per_channel_symmetric", GlobalKind::kOpaque},
    {"torch.per_channel_affine_float_qparams", GlobalKind::kOpaque},
    {"torch.Tensor", GlobalKind::kTensorClass},
    {"torch.nn.parameter.Parameter", GlobalKind::kTensorClass},
    {"torch._utils._rebuild_tensor", GlobalKind::kRebuildTensor},
    {"torch._utils._rebuild_tensor_v2", GlobalKind::kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", GlobalKind::kRebuildTensorV3},
    {"torch._utils._rebuild_parameter", GlobalKind::kRebuildParameter},
    {"torch._utils._rebuild_parameter_with_state", GlobalKind::kRebuildParameterWithState},
    {kRebuildFromType, GlobalKind::kRebuildFromTypeV2},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", GlobalKind::kRebuildFromCpuTensor},
    {"torch.UntypedStorage", GlobalKind::kUntypedStorageClass},
    {"torch.storage.UntypedStorage", GlobalKind::kUntypedStorageClass},
    {"torch.storage._UntypedStorage", GlobalKind::kUntypedStorageClass},  // torch 1.11
    {"torch.cuda.UntypedStorage", GlobalKind::kUntypedStorageClass},
    {"torch_xla.utils.serialization.TensorReference", GlobalKind::kReference},
    {"neuronx_distributed.trainer.checkpoint._InternalTensorReference",
     GlobalKind::kInternalReference},
    {"torch._utils._rebuild_qtensor", GlobalKind::kRefused, kQuantized},
    {"torch._utils._rebuild_sparse_tensor", GlobalKind::kRefused, kDense},
    {"torch._utils._rebuild_sparse_csr_tensor", GlobalKind::kRefused, kDense},
    {"torch._utils._rebuild_nested_tensor", GlobalKind::kRefused, kDense},
    {"torch._utils._rebuild_meta_tensor_no_storage", GlobalKind::kRefused, kMeta},
    {kRebuildWrapper, GlobalKind::kRefused, kSubclass},
    {"torch._utils._rebuild_device_tensor_from_numpy", GlobalKind::kRefused, kXla},
    {"torch._utils._rebuild_xla_tensor", GlobalKind::kRefused, kXla},
    {kDTensorClass, GlobalKind::kRefused, kDTensor},
    {"torch.distributed._tensor.api.DTensor", GlobalKind::kRefused, kDTensor},
    {"numpy.core.multiarray._reconstruct", GlobalKind::kRefused, kNumpy},
    {"numpy.core.multiarray.scalar", GlobalKind::kRefused, kNumpy},
    {"numpy._core.multiarray._reconstruct", GlobalKind::kRefused, kNumpy},
    {"numpy._core.multiarray.scalar", GlobalKind::kRefused, kNumpy},
    {"numpy.ndarray", GlobalKind::kRefused, kNumpy},
    {"numpy.dtype", GlobalKind::kRefused, kNumpy},
};

struct StorageRow {
  const char* name;
  Dtype dtype;
};
// Tensors of other dtypes are rebuilt by _rebuild_tensor_v3 (torch 2.1 and later).
constexpr StorageRow kStorages[] = {
    {"DoubleStorage", Dtype::kF64},       {"FloatStorage", Dtype::kF32},
    {"HalfStorage", Dtype::kF16},         {"BFloat16Storage", Dtype::kBF16},
    {"LongStorage", Dtype::kI64},         {"IntStorage", Dtype::kI32},
    {"ShortStorage", Dtype::kI16},        {"CharStorage", Dtype::kI8},
    {"ByteStorage", Dtype::kU8},          {"BoolStorage", Dtype::kBool},
    {"ComplexFloatStorage", Dtype::kC64}, {"ComplexDoubleStorage", Dtype::kC128},
};
constexpr const char* kQuantizedStorages[] = {"QInt8Storage", "QInt32Storage", "QUInt8Storage",
                                              "QUInt4x2Storage", "QUInt2x4Storage"};
// torch dtypes without a Dtype of ours: they may be saved as values, but no tensor has them here.
constexpr const char* kOtherDtypes[] = {"qint8",      "qint32", "quint8",  "quint4x2", "quint2x4",
                                        "bits8",      "bits16", "bits1x8", "bits2x4",  "bits4x2",
                                        "bcomplex32", "uint1",  "uint2",   "uint3",    "uint4",
                                        "uint5",      "uint6",  "uint7",   "int1",     "int2",
                                        "int3",       "int4",   "int5",    "int6",     "int7"};

// Classes of torch 2.4 to 2.15, by the modules that have held them. Calls of them, and objects
// made, are data here: a name, arguments and state.
struct ClassRow {
  const char* name;
  std::array<const char*, 4> modules;  // each with a dot at its end
};
constexpr char kTensor[] = "torch.distributed.tensor.";
constexpr char kOldTensor[] = "torch.distributed._tensor.";
constexpr char kOldPlacements[] = "torch.distributed._tensor.placement_types.";
constexpr char kPlacements[] = "torch.distributed.tensor.placement_types.";
constexpr char kSpec[] = "torch.distributed.tensor._dtensor_spec.";
constexpr char kOldSpec[] = "torch.distributed._tensor._dtensor_spec.";
constexpr char kSharded[] = "torch.distributed._shard.sharded_tensor.metadata.";
constexpr ClassRow kDistributed[] = {
    {"_rebuild_wrapper_subclass", {"torch._utils."}},
    {"DTensor",
     {kTensor, "torch.distributed.tensor._api.", kOldTensor, "torch.distributed._tensor.api."}},
    {"DTensorSpec", {kSpec, kOldSpec, kOldPlacements}},
    {"TensorMeta", {kSpec, kOldSpec, kOldPlacements}},
    {"ShardOrderEntry", {kSpec}},
    {"DeviceMesh", {"torch.distributed.device_mesh.", "torch.distributed._tensor.device_mesh."}},
    {"_MeshLayout", {"torch.distributed._mesh_layout."}},
    {"_FlatLayout", {"torch.distributed._mesh_layout."}},
    {"Shard", {kPlacements, kOldPlacements}},
    {"_StridedShard", {kPlacements, kOldPlacements}},
    {"Replicate", {kPlacements, kOldPlacements}},
    {"Partial", {kPlacements, kOldPlacements}},
    {"_Partial", {kPlacements, kOldPlacements}},
    {"ShardedTensor", {"torch.distributed._shard.sharded_tensor.api."}},
    {"ProcessGroupState", {"torch.distributed._shard.sharded_tensor.api.ShardedTensor."}},
    {"Shard", {"torch.distributed._shard.sharded_tensor.shard."}},
    {"ShardedTensorMetadata", {kSharded}},
    {"TensorProperties", {kSharded}},
    {"MEM_FORMAT_ENCODING", {kSharded}},
    {"ShardMetadata", {"torch.distributed._shard.metadata."}},
    {"ChunkShardingSpec", {"torch.distributed._shard.sharding_spec.chunk_sharding_spec."}},
    {"EnumerableShardingSpec", {"torch.distributed._shard.sharding_spec.api."}},
    {"_remote_device", {"torch.distributed.remote_device."}},
};

// Classes whose attributes are read: the arguments of Megatron's scripts, DeepSpeed's numbers.
constexpr ClassRow kTrainerRows[] = {
    {"Namespace", {"argparse."}},
    {"SimpleNamespace", {"types."}},
    {"ZeroStageEnum", {"deepspeed.runtime.zero.config."}},
    {"getattr", {"builtins."}},
};

// Modules, with a dot at the end, and functions that run code given in the file.
constexpr std::string_view kRunningModules[] = {
    "os.",        "posix.", "nt.",        "sys.",    "subprocess.", "socket.", "shutil.",
    "importlib.", "runpy.", "pty.",       "pdb.",    "ctypes.",     "timeit.", "bdb.",
    "asyncio.",   "cffi.",  "_io.FileIO", "io.open", "webbrowser.", "pip.",    "torch.hub."};
constexpr std::string_view kRunningFunctions[] = {
    "builtins.eval",       "builtins.exec",        "builtins.compile",    "builtins.open",
    "builtins.input",      "builtins.__import__",  "builtins.breakpoint", "torch.load",
    "pickle.loads",        "pickle.load",          "_pickle.loads",       "_pickle.load",
    "operator.attrgetter", "operator.methodcaller"};

bool RunsCode(std::string_view name) {
  const auto starts = [&](std::string_view module) { return name.starts_with(module); };
  return std::ranges::any_of(kRunningModules, starts) ||
         std::ranges::find(kRunningFunctions, name) != std::end(kRunningFunctions);
}

constexpr ClassRow kNumpyRows[] = {
    {"_reconstruct", {"numpy.core.multiarray.", "numpy._core.multiarray."}},
    {"scalar", {"numpy.core.multiarray.", "numpy._core.multiarray."}},
    {"ndarray", {"numpy."}},
    {"dtype", {"numpy."}},
};

std::vector<Global> MakeTable() {
  std::vector<Global> table;
  for (const Row& row : kRows) table.push_back({row.name, row.kind, Dtype::kU8, row.hint});
  for (const char* module : {"torch.", "torch.cuda."}) {
    for (const StorageRow& row : kStorages)
      table.push_back({std::string(module) + row.name, GlobalKind::kStorageClass, row.dtype});
    for (const char* name : kQuantizedStorages)
      table.push_back({std::string(module) + name, GlobalKind::kRefused, Dtype::kU8, kQuantized});
  }
  AddDtypes(table);
  for (const char* name : kOtherDtypes)
    table.push_back({std::string("torch.") + name, GlobalKind::kOpaque});
  return table;
}

// Replaces rows of the same names.
void AddRecords(std::span<const ClassRow> rows, std::vector<Global>& table) {
  for (const ClassRow& row : rows)
    for (const char* module : row.modules) {
      if (!module) continue;
      std::string name = std::string(module) + row.name;
      std::erase_if(table, [&](const Global& global) { return global.name == name; });
      table.push_back({std::move(name), GlobalKind::kRecord});
    }
}

std::vector<Global> MakeDistributedTable() {
  std::vector<Global> table = MakeTable();
  AddRecords(kDistributed, table);
  table.push_back({"builtins.getattr", GlobalKind::kInnerClass});
  return table;
}

std::vector<Global> MakeRunStateTable() {
  std::vector<Global> table = MakeDistributedTable();
  AddRecords(kNumpyRows, table);
  return table;
}

std::vector<Global> MakeAnyTable() {
  std::vector<Global> table = MakeRunStateTable();
  AddRecords(kTrainerRows, table);
  for (Global& global : table)
    if (global.kind == GlobalKind::kRefused) global.kind = GlobalKind::kInert;
  return table;
}

}  // namespace

void AddDtypes(std::vector<Global>& globals) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (!TorchName(dtype).empty())
      globals.push_back({"torch." + std::string(TorchName(dtype)), GlobalKind::kDtype, dtype});
  }
}

const GlobalTable& TorchGlobals() {
  static const GlobalTable table(
      MakeTable(), "that plain tensors and containers need",
      "save a dict of tensors (a state_dict) instead of Python objects");  // constant
  return table;
}

const GlobalTable& DistributedGlobals() {
  static const GlobalTable table(
      MakeDistributedTable(), "that tensors, distributed tensors and containers need",
      "save a dict of tensors (a state_dict) instead of Python objects");  // constant
  return table;
}

const GlobalTable& RunStateGlobals() {
  static const GlobalTable table(MakeRunStateTable(),
                                 "that the state of a run needs: tensors, arrays, containers",
                                 "nothing of it is loaded");  // constant
  return table;
}

const GlobalTable& AnyGlobals() {
  static const GlobalTable table = GlobalTable::OfAnything(MakeAnyTable());  // constant
  return table;
}

GlobalTable GlobalTable::OfAnything(std::vector<Global> globals) {
  GlobalTable table(std::move(globals), "", "");
  table.keeps_others_ = true;
  return table;
}

GlobalTable::GlobalTable(std::vector<Global> globals, std::string needed_by, std::string hint)
    : globals_(std::move(globals)), needed_by_(std::move(needed_by)), hint_(std::move(hint)) {
  std::ranges::sort(globals_, {}, &Global::name);
}

Result<const Global*> GlobalTable::Find(std::string_view module, std::string_view name) const {
  // Python 3 calls Python 2's __builtin__ builtins; a pickle of protocol 2 has the old name.
  const std::string full =
      fmt::format("{}.{}", module == "__builtin__" ? "builtins" : module, name);
  const auto found = std::ranges::lower_bound(globals_, full, {}, &Global::name);
  const bool known = found != globals_.end() && found->name == full;
  if (!known && keeps_others_) {
    static const Global kOther = {"an unknown class", GlobalKind::kInert};  // constant
    if (!RunsCode(full)) return &kOther;
    return Unsupported("the pickle asks for {}, with which loading it would run code", full)
        .hint("nothing was run here; do not load the file with torch");
  }
  if (!known)
    return Unsupported("the pickle asks for the global {}, which is not on the list of those {}",
                       full, needed_by_)
        .hint(hint_);
  if (found->kind == GlobalKind::kRefused)
    return Unsupported("the pickle asks for {}, which is not supported", full).hint(found->hint);
  return &*found;
}

const char* StorageClassName(Dtype dtype) {
  const auto* row = std::ranges::find(kStorages, dtype, &StorageRow::dtype);
  return row != std::end(kStorages) ? row->name : nullptr;
}

}  // namespace nxdkit::torch
