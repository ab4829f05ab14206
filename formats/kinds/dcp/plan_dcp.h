// PRIVATE to formats/kinds/dcp: a distributed checkpoint, from logical parameters to files.
#pragma once

#include <string>
#include <vector>

#include "formats/dcp/encoder.h"
#include "formats/dcp/layout.h"
#include "formats/dcp/metadata.h"
#include "formats/kinds/dcp/decide_dcp.h"

namespace nxdkit::kinds {

struct DcpObject {
  std::string key;
  dcp::ObjectArchive archive;
};

// All that the checkpoint holds.
struct DcpContents {
  std::vector<dcp::GlobalTensor> tensors;  // the weights, then the optimizer's
  std::vector<DcpObject> objects;
  // An entry per tensor and object, in their order, still without dtypes and places.
  dcp::Metadata metadata;
};
Result<DcpContents> MakeDcpContents(const BoundArtifact& source, const DcpOutput& output);

// The dtype of each model parameter as it is stored.
std::vector<Dtype> WeightDtypes(const BoundArtifact& source);

}  // namespace nxdkit::kinds
