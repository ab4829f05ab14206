// The common state of a Megatron-Core checkpoint, a torch archive with any contents; and a key.
#include "formats/megatron/common_state.h"
#include "formats/megatron/keys.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  const std::string text(TextOf(data, size));
  const megatron::Key key = megatron::ParseKey(text);
  Require(key.name.size() <= text.size(), "a name no longer than the key");
  static testing_util::MemoryFile file;
  file.Set(text);
  const Result<torch::Archive> archive =
      torch::ReadArchive(file.path(), {.allowed = torch::ReadOptions::Allowed::kAny});
  if (!archive.ok()) {
    Require(archive.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  const Result<megatron::CommonState> state = megatron::ParseCommonState(*archive);
  Require(state.ok() || state.error().code() != Errc::kInternal, "no bug of ours");
  return 0;
}
