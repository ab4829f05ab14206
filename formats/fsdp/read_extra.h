// PRIVATE: the extra_state_ files of a rank set: the scheduler, and the random number state of each
// rank, which no other program can continue from and which is carried over as it is.
#pragma once

#include "formats/dcp/shard_entries.h"
#include "formats/torch/archive.h"

namespace nxdkit::fsdp {

inline constexpr std::string_view kSchedulerKeys = "lr_scheduler.";

class ExtraReader {
 public:
  explicit ExtraReader(dcp::ShardEntries& entries) : entries_(entries) {}

  // Adds the file of one rank. kCorrupt where its scheduler differs from that of earlier ranks.
  Status Add(const torch::Archive& archive, int rank);

 private:
  dcp::ShardEntries& entries_;
  std::string text_;  // the scheduler's pickle
};

}  // namespace nxdkit::fsdp
