// PRIVATE to formats/kinds: a Hugging Face folder, or PEFT's adapter, as an output.
#pragma once

#include "formats/kinds/output.h"

namespace nxdkit::kinds {

inline constexpr uint64_t kShardBytes = 5'000'000'000;  // of a file, transformers' default

class HfOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;

  uint64_t max_shard_bytes = kShardBytes;
  std::string spelling;  // of the family; "": as transformers saves it
};

Result<std::unique_ptr<Output>> DecideHf(const BoundArtifact& source, const OutputOptions& options);

}  // namespace nxdkit::kinds
