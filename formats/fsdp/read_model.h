// PRIVATE: the model_ files of a rank set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/dcp/shard_entries.h"
#include "formats/dtensor/rank_values.h"
#include "formats/fsdp/open.h"

namespace nxdkit::fsdp {

// The archive of one of `files`, by number. kCorrupt where the archive's folder says that it was
// saved as another rank's file.
Result<torch::Archive> ReadRankArchive(const dcp::FolderFiles& files, uint32_t file,
                                       torch::ReadOptions::Allowed allowed,
                                       const RankFileName& name, dcp::Folder& out);

// The parts of the whole that a rank's tensor has; a plain tensor is a copy of all of it. Rows
// added by FSDP as padding are not a part, and must be zero.
Result<dtensor::LocalShard> PartsOf(const StoredTensor& stored,
                                    const std::optional<dtensor::Place>& place);

// kCorrupt where the mesh does not have all ranks, or the file is another rank's.
Status CheckMesh(const dtensor::DeviceMesh& mesh, int world, int rank);

class ModelReader {
 public:
  ModelReader(dcp::ShardEntries& entries, Facts& facts) : entries_(entries), facts_(facts) {}

  // Adds the file of one rank; ranks come in order.
  Status Add(const torch::Archive& archive, uint32_t file, int rank);
  // Checks that all ranks have the same names.
  Status Finish(size_t ranks) const;

 private:
  Status AddTensor(const dtensor::RankTensor& tensor, uint32_t file, int rank);
  Status Check(const ModelTensor& known, const dtensor::RankTensor& tensor, int rank) const;

  dcp::ShardEntries& entries_;
  Facts& facts_;
  std::unordered_map<std::string, size_t> numbers_;  // in facts_.tensors
  std::vector<std::vector<int>> ranks_;              // ranks that have the tensor
  std::vector<bool> has_dtype_;  // by tensor: whether a rank with elements set its dtype
  std::shared_ptr<const dtensor::DeviceMesh> checked_;  // the last valid one
};

}  // namespace nxdkit::fsdp
