// PRIVATE to formats/kinds: a distributed checkpoint, read: its keys without what programs put
// around them, and where it stores parameters and the optimizer's state (training/state_keys.h).
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
  // The same of a folder whose keys were changed.
  virtual std::shared_ptr<const DcpState> With(std::shared_ptr<const dcp::Folder> changed) const {
    return std::make_shared<const DcpState>(std::move(changed));
  }
  std::shared_ptr<const dcp::Folder> folder;
};

// nullptr where it is no distributed checkpoint.
const dcp::Folder* DcpFolderOf(const Artifact& artifact);
// Of a distributed checkpoint: what it is with the folder in the place of its own.
void ReplaceFolder(Artifact& artifact, std::shared_ptr<const dcp::Folder> folder);

// The archives of the checkpoint, which it must be.
std::vector<ArchiveRange> ArchivesOfDcp(const Artifact& artifact);

// The objects of the checkpoint, which it must be.
std::shared_ptr<const RunObjects> DcpObjectsOf(const Artifact& artifact);

// The tensors that a checkpoint of a model can have, in every style, by key.
using DcpTensors = std::unordered_map<std::string, dcp::GlobalTensor>;

// The tensor that the optimizer calls `name`, with or without "model." before it. kUnsupported when
// the model has none, or when the optimizer has numbers for names.
Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name);

// Binds the optimizer's state too where hints.optimizer asks for it.
Status BindDcp(BoundArtifact& out, const InputHints& hints);

// Binds it into `out`, whose model is bound; nothing when there is no optimizer. Of a parameter
// whose state has two names both are bound, as copies.
// kCorrupt for state of no parameter's shape, and for two names that disagree; kUnsupported for
// state of a parameter that is not known.
Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known);

// Gives the folder's tensors and objects the keys that they have without wrappers; a warning says
// which were left out. A checkpoint whose keys are plain, or would not be different from each other
// any more, stays as it is.
void UnwrapKeys(Artifact& artifact, const models::Model& model);

// Whether it is one of TorchTitan's buffers that says nothing: all of it is zeros.
Result<bool> IsAllZeros(const dcp::StoredEntry& entry);

// The options of the first `params` parameters of `source`, which are the model's, sorted by name;
// empty for one that has none.
// An option may be stored as an object or as a tensor without dimensions, which then is its number.
// kCorrupt for two names of one parameter that disagree, and for a group that does not say what is
// in it.
Result<std::vector<torch::PickleDict>> ReadDcpOptions(const BoundArtifact& source,
                                                      const DcpTensors& known, size_t params);

}  // namespace nxdkit::kinds
