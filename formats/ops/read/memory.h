// PRIVATE to tools/, for now.
#pragma once
#include "formats/ops/read/reader.h"
namespace nxdkit::ops {
struct MemoryTensor { std::string name; Dtype dtype = Dtype::kF32; Shape shape; Shape strides; const std::byte* data = nullptr; int tp = 0, pp = 0, ep = 0; };
struct MemoryModel { std::string name; const Kind* layout = nullptr; std::vector<MemoryTensor> tensors; };
inline Result<Artifact> OpenMemory(const MemoryModel&, const InputHints&) { return Error(Errc::kUnsupported, "stub"); }
}
