// PRIVATE to formats/kinds: the tensors of a LoRA adapter by PEFT's names, wherever they are
// stored.
#pragma once

#include "formats/adapter/lora_numbering.h"
#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// Binds the tensors of the first file of `out`, whose `lora` has its configuration. kCorrupt: A
// without B, a rank that the configuration does not give, shapes that do not match the base, an
// adapted module without tensors. kUnsupported: a module that the base does not have, an option
// that changes what the tensors mean.
Status BindPeftTensors(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing);

// Whether two tensors have the same dtype, shape and bytes. Reads both.
Result<bool> HoldSame(const StoredTensor& a, const StoredTensor& b);

}  // namespace nxdkit::kinds
