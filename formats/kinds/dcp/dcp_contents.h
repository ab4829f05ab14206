// PRIVATE to formats/kinds: the contents of a distributed checkpoint to be written, key by key.
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

// The contents of the checkpoint.
struct DcpContents {
  std::vector<dcp::GlobalTensor> tensors;  // the weights, then the optimizer's
  size_t weights = 0;                      // the number of weights, and buffers
  std::vector<DcpObject> objects;
  // An entry per tensor and object, in their order, still without dtypes and places.
  dcp::Metadata metadata;
};
Result<DcpContents> MakeDcpContents(const BoundArtifact& source, const DcpOutput& output);

// The model's weights under the style's names; for a model without a table, each parameter by
// itself.
Result<std::vector<dcp::GlobalTensor>> WeightTensors(const BoundArtifact& source, dcp::Style style);

// The dtype of each model parameter as it is stored.
std::vector<Dtype> WeightDtypes(const BoundArtifact& source);

}  // namespace nxdkit::kinds
