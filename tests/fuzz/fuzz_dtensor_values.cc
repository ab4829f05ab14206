// A file of one rank as FSDP and torch_checkpointing write it: a torch archive with distributed
// tensors. They are consistent, or refused.
#include "formats/dtensor/rank_values.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile file;
  file.Set(TextOf(data, size));
  const Result<torch::Archive> archive =
      torch::ReadArchive(file.path(), {.allowed = torch::ReadOptions::Allowed::kDistributed});
  if (!archive.ok()) {
    Require(archive.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  const Result<dtensor::RankValues> values = dtensor::ValuesOf(*archive);
  if (!values.ok()) {
    Require(values.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  for (const dtensor::RankTensor& tensor : values->tensors) {
    if (!tensor.place) continue;
    for (const dtensor::Part& part : tensor.place->shard.parts)
      for (size_t d = 0; d < part.box.lo.size(); ++d)
        Require(part.box.lo[d] + part.box.extent[d] <= tensor.place->shape[d],
                "a part inside of the whole");
  }
  return 0;
}
