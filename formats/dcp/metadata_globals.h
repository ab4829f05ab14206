// PRIVATE to formats/dcp: the classes that a .metadata names, for reader and writer.
#pragma once

#include "formats/torch/pickle_globals.h"

namespace nxdkit::dcp {

inline constexpr char kMetadataClass[] = "torch.distributed.checkpoint.metadata.Metadata";
// The metadata class of Megatron-Core 0.15, which adds fields to torch's.
inline constexpr char kMegatronClass[] =
    "megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata";
inline constexpr const char* kMetadataClasses[] = {kMetadataClass, kMegatronClass};
inline constexpr char kTensorClass[] =
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata";
inline constexpr char kBytesClass[] = "torch.distributed.checkpoint.metadata.BytesStorageMetadata";
inline constexpr char kChunkClass[] = "torch.distributed.checkpoint.metadata.ChunkStorageMetadata";
inline constexpr char kIndexClass[] = "torch.distributed.checkpoint.metadata.MetadataIndex";
inline constexpr char kStorageMetaClass[] = "torch.distributed.checkpoint.metadata.StorageMeta";
inline constexpr char kPropertiesClass[] = "torch.distributed.checkpoint.metadata.TensorProperties";
inline constexpr char kMemoryFormatClass[] =
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING";
inline constexpr char kStorageInfoClass[] = "torch.distributed.checkpoint.filesystem._StorageInfo";
inline constexpr char kGetLayout[] = "torch.serialization._get_layout";
inline constexpr char kStrided[] = "torch.strided";
// The only transformation of items that torch has.
inline constexpr char kZstd[] = "stream.zstd/1";
// The class's name before torch 2.3.
inline constexpr char kOldPropertiesClass[] =
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties";

// The globals of a .metadata of torch 2.0 to 2.15, or of Megatron-Core 0.11 to 0.19, and no others.
const torch::GlobalTable& MetadataGlobals();

}  // namespace nxdkit::dcp
