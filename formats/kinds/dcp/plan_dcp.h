// PRIVATE to formats/kinds/dcp: the files of a distributed checkpoint.
#pragma once

#include <string>
#include <vector>

#include "formats/kinds/builder.h"
#include "formats/kinds/dcp/dcp_contents.h"

namespace nxdkit::kinds {

// kLimit if the chunks of these tensors take more memory than a plan may.
Status CheckChunkBytes(const OutputBuilder& builder, const dcp::Mesh& mesh,
                       const std::vector<dcp::GlobalTensor>& tensors);

// Plans a file for each rank of the mesh, the first one with the objects too, and the metadata, in
// a folder of the output ("" is the output itself). The metadata is the last text: a folder without
// it is not a checkpoint. kLimit for a plan that memory cannot hold.
Status PlanDcpFolder(OutputBuilder& builder, DcpContents contents, const dcp::Mesh& mesh,
                     const std::string& below);

}  // namespace nxdkit::kinds
