// PRIVATE: the extra_state_ files of a rank set: the scheduler, and the random numbers of each
// rank, which no other program goes on from and which are carried as they are.
#pragma once

#include "formats/dcp/shard_entries.h"
#include "formats/torch/archive.h"

namespace nxdkit::fsdp {

inline constexpr std::string_view kSchedulerKeys = "lr_scheduler.";

class ExtraReader {
 public:
  explicit ExtraReader(dcp::ShardEntries& entries) : entries_(entries) {}

  // The file of one rank. kCorrupt where the scheduler is not that of the ranks before it.
  Status Add(const torch::Archive& archive, int rank);

 private:
  dcp::ShardEntries& entries_;
  std::string text_;  // the scheduler's pickle
};

}  // namespace nxdkit::fsdp
