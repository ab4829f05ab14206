// PRIVATE to formats/kinds: what is known of a distributed checkpoint beside what all artifacts have.
#pragma once

#include <memory>

#include "formats/artifact/bound.h"
#include "formats/dcp/folder.h"

namespace nxdkit::ops {

struct DcpState : KindState {
  explicit DcpState(std::shared_ptr<const dcp::Folder> opened) : folder(std::move(opened)) {}
  std::shared_ptr<const dcp::Folder> folder;
};

// nullptr where it is no distributed checkpoint.
const dcp::Folder* DcpFolderOf(const Artifact& artifact);

// The objects of the checkpoint, which it must be.
std::shared_ptr<const RunObjects> DcpObjectsOf(const Artifact& artifact);

}  // namespace nxdkit::ops
