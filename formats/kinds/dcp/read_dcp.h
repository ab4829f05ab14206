// PRIVATE to formats/kinds: reads a distributed checkpoint: its keys without the wrappers that
// programs put around them, and where it stores parameters and the optimizer's state
// (training/state_keys.h).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/bound.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"
#include "formats/models/model.h"
#include "lib/base/error.h"

namespace nxdkit::kinds {

struct DcpState : KindState {
  explicit DcpState(std::shared_ptr<const dcp::Folder> opened) : folder(std::move(opened)) {}
  // The same for a folder whose keys were changed.
  virtual std::shared_ptr<const DcpState> With(std::shared_ptr<const dcp::Folder> changed) const {
    return std::make_shared<const DcpState>(std::move(changed));
  }
  std::shared_ptr<const dcp::Folder> folder;
};

// nullptr if it is not a distributed checkpoint.
const dcp::Folder* DcpFolderOf(const Artifact& artifact);
// Replaces the folder of a distributed checkpoint.
void ReplaceFolder(Artifact& artifact, std::shared_ptr<const dcp::Folder> folder);

// The archives of the artifact, a distributed checkpoint.
std::vector<ArchiveRange> ArchivesOfDcp(const Artifact& artifact);

// The objects of the artifact, a distributed checkpoint.
std::shared_ptr<const RunObjects> DcpObjectsOf(const Artifact& artifact);

// The tensors that a checkpoint of a model can have, in every style, by key.
using DcpTensors = std::unordered_map<std::string, dcp::GlobalTensor>;

// The tensor that the optimizer calls `name`, with or without "model." before it. kUnsupported if
// the model has none, or if the optimizer uses numbers for names.
Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name);

// Binds the optimizer's state too if hints.optimizer asks for it.
Status BindDcp(BoundArtifact& out, const InputHints& hints);

// Binds the optimizer's state into `out`, whose model is bound; nothing if there is none. If a
// parameter's state has two names, both are bound, as copies. kCorrupt for state whose shape fits
// no parameter, and for two names that disagree; kUnsupported for state of an unknown parameter.
Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known);

// Gives the folder's tensors and objects the keys that they have without wrappers; a warning lists
// the wrappers. A checkpoint whose keys are plain, or would no longer be distinct, stays as it is.
void UnwrapKeys(Artifact& artifact, const models::Model& model);

// Whether all values of one of TorchTitan's buffers are zero, and so have no effect.
Result<bool> IsAllZeros(const dcp::StoredEntry& entry);

// The options of the first `params` parameters of `source`, which are the model's, sorted by name;
// empty for a parameter that has none. An option may be stored as an object or as a tensor without
// dimensions, which is then read as a number. kCorrupt for two names of one parameter that
// disagree, and for a group that does not list its parameters.
Result<std::vector<torch::PickleDict>> ReadDcpOptions(const BoundArtifact& source,
                                                      const DcpTensors& known, size_t params);

}  // namespace nxdkit::kinds
