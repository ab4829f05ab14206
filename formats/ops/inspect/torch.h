// PRIVATE to formats/ops/inspect: one torch archive, wherever in its values the tensors are.
#pragma once

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

// A state dict, nested values, a shard of an NxD set, or a TorchScript program. Fills form,
// description, artifact, references, shard, entries, records and warnings.
Status InspectTorchFile(Inspection& inspection, const InspectRequest& request);

// The tensors of any torch archive, named by their place in its values; those of an xser file are
// read from their own files.
Result<TensorFile> ReadTreeOfTensors(const std::string& path);

}  // namespace nxdkit::ops
