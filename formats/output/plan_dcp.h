// PRIVATE to formats/output: a PyTorch distributed checkpoint, from logical parameters to files.
#pragma once

#include <string>
#include <vector>

#include "formats/dcp/encoder.h"
#include "formats/dcp/layout.h"
#include "formats/dcp/metadata.h"
#include "formats/output/decide_output.h"

namespace nxdkit::ops {

// Decides names and mesh. kUnsupported for a model that the style has no names for.
Status DecideDcp(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec);

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
// What `.metadata` takes in memory at the least while it is made: known before anything of it is.
Result<uint64_t> LeastDcpBytes(const BoundArtifact& source, const OutputSpec& spec);

Result<DcpContents> MakeDcpContents(const BoundArtifact& source, const OutputSpec& spec);

struct DcpChunk {
  size_t entry = 0;  // index into DcpContents::tensors
  Box box;
  TensorLayout layout;
};
struct DcpRank {
  std::vector<DcpChunk> chunks;
};
// What each rank of the mesh writes.
std::vector<DcpRank> CutDcp(const DcpContents& contents, const dcp::Mesh& mesh);

}  // namespace nxdkit::ops
