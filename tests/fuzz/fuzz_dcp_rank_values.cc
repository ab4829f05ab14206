// A file of one rank as torch_checkpointing writes it: a torch archive with distributed tensors.
// What is made of them fits, or is refused.
#include "formats/dcp/rank_values.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile file;
  file.Set(TextOf(data, size));
  const Result<torch::Archive> archive = torch::ReadArchive(file.path(), {.distributed = true});
  if (!archive.ok()) {
    Require(archive.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  const Result<dcp::RankValues> values = dcp::ValuesOf(*archive);
  if (!values.ok()) {
    Require(values.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  for (const dcp::RankTensor& tensor : values->tensors) {
    if (!tensor.place) continue;
    const auto shard = dcp::ShardAt(tensor.place->sharding, tensor.place->coordinate);
    Require(shard.ok() || shard.error().code() != Errc::kInternal, "no bug of ours");
  }
  return 0;
}
