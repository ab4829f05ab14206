#include "formats/dcp/metadata_globals.h"

namespace nxdkit::dcp {
namespace {

using torch::Global;
using torch::GlobalKind;

constexpr char kInMemory[] = "torch keeps this in memory and writes it into no .metadata";

constexpr const char* kRecords[] = {
    kMetadataClass,
    kTensorClass,
    kBytesClass,
    kChunkClass,
    kIndexClass,
    kStorageMetaClass,
    kPropertiesClass,
    kMemoryFormatClass,
    kStorageInfoClass,
    kGetLayout,
    kOldPropertiesClass,
    // Other spellings, by version of torch or Python.
    "torch.distributed.checkpoint.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "builtins.getattr",  // used for an enum's member by some versions of Python
    // The plans of the ranks, which Megatron stores as well.
    kMegatronClass,
    "megatron.core.dist_checkpointing.strategies.torch.MCoreSavePlan",
    "torch.distributed.checkpoint.planner.SavePlan",
    "torch.distributed.checkpoint.planner.WriteItem",
    "torch.distributed.checkpoint.planner.WriteItemType",
    "torch.distributed.checkpoint.planner.TensorWriteData",
    "torch.distributed.checkpoint.planner.BytesIOWriteData",
};

std::vector<Global> MakeTable() {
  std::vector<Global> table;
  for (const char* name : kRecords) table.push_back({name, GlobalKind::kRecord});
  table.push_back({"torch.Size", GlobalKind::kSize});
  table.push_back({"collections.OrderedDict", GlobalKind::kOrderedDict});
  torch::AddDtypes(table);
  for (const char* name : {"torch.distributed.checkpoint._hf_utils._HFStorageInfo",
                           "torch.distributed.checkpoint.hf_storage._HFStorageInfo"})
    table.push_back({name, GlobalKind::kRefused, Dtype::kU8, kInMemory});
  return table;
}

}  // namespace

const torch::GlobalTable& MetadataGlobals() {
  static const torch::GlobalTable table(
      MakeTable(), "that the metadata of a torch distributed checkpoint needs",
      "another planner than torch's own may have written it; nothing of it is loaded");  // constant
  return table;
}

}  // namespace nxdkit::dcp
