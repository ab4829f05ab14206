// Any bytes: accepted with every invariant, or refused with an error and its fault.
#include <string>
#include <string_view>

#include "formats/safetensors/safetensors.h"
#include "lib/system/broken_download.h"
#include "tests/formats/memory_file.h"
#include "tests/formats/safetensors/invariants.h"
#include "tests/formats/safetensors/probe_table.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile memory;
  memory.Set(TextOf(data, size));
  const Result<TensorFile> file = safetensors::Open(memory.path());
  if (file.ok()) {
    const std::string broken = safetensors::testing::BrokenInvariant(*file);
    Require(broken.empty(), broken);
    return 0;
  }
  const bool corrupt = file.error().code() == Errc::kCorrupt;
  const bool over_our_caps =
      file.error().code() == Errc::kLimit || file.error().code() == Errc::kUnsupported;
  const bool named = safetensors::testing::FaultOf(file) != safetensors::testing::kNone;
  // For example a web page in place of the file: no part of it is at fault.
  const bool is_another = corrupt && WrongAnswer(memory.path()).has_value();
  Require(corrupt ? named || is_another : over_our_caps, file.error().ToString());
  Require(!corrupt || is_another || file.error().offset().has_value(),
          "no offset: " + file.error().ToString());
  Require(file.error().offset().value_or(0) <= size, "offset " + file.error().ToString());
  (void)safetensors::LooksLikeSafetensors(memory.path());
  return 0;
}
