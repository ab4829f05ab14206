// Private: the steps of Inspect, each filling in a part of the Inspection.
#pragma once

#include <string>

#include "formats/ops/inspect/inspect.h"
#include "lib/system/file.h"

namespace nxdkit::ops {

// One torch archive: a state dict, nested values, a shard of an NxD set, or a TorchScript program.
// Fills form, description, artifact, references, shard, entries, records and warnings.
Status InspectTorchFile(Inspection& inspection, const InspectRequest& request);

// The tensors of any torch archive, named by their place in its values; those of an xser file are
// read from their own files.
Result<TensorFile> ReadTreeOfTensors(const std::string& path);

// A NEFF in a file of its own, and all that lie in the stored records of an archive.
bool LooksLikeNeff(const std::string& path);
Status InspectNeff(Inspection& inspection, const InspectRequest& request);
Status AddNeffs(Inspection& inspection, const File& file, const std::string& record,
                uint64_t offset, uint64_t end, const InspectRequest& request,
                bool list_members = true);
// The headers of the NEFFs in a bundle's blobs. A blob that cannot be read is a warning.
Status AddBlobs(Inspection& inspection, const InspectRequest& request);

// A file of what changed in a model.
Status InspectDelta(Inspection& inspection, const InspectRequest& request);

// Folders that hold no model: the compile cache, a LoRA adapter, an optimizer's state.
bool LooksLikeAdapter(const std::string& path);
Status InspectCache(Inspection& inspection, const InspectRequest& request);
Status InspectAdapter(Inspection& inspection, const InspectRequest& request);
Status InspectOptimizer(Inspection& inspection, const InspectRequest& request);

// Fills `trainer` when optimum-neuron's trainer or transformers' left its files in the folder.
void DescribeTrainer(Inspection& inspection, const std::string& folder);

// Fills `layout`, `parameters`, and the facts that follow from a known layout. The artifact is as
// before, also when its layout does not fit. kUsage when an option contradicts the artifact.
Status InspectLayout(Inspection& inspection, const InspectRequest& request);

// Facts of `artifact.set` and of `artifact.bundle` that names tell.
void DescribeSet(Inspection& inspection);
void DescribeBundle(Inspection& inspection);

// Fills the counts and `dtypes`.
void CountTensors(Inspection& inspection);

uint64_t FileBytes(const std::string& path);  // 0 when there is none

}  // namespace nxdkit::ops
