// Any bytes as a graph, as the configuration of a kernel, and as the small files of an entry.
#include <string>

#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/lite_metadata.h"
#include "formats/compile_cache/lite_owner.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  const std::string_view text = TextOf(data, size);
  const auto kernels = neff::KernelsOfGraph(text);
  if (!kernels.ok()) Require(kernels.error().offset().value_or(0) <= size);
  if (kernels.ok()) {
    for (const neff::GraphKernel& kernel : *kernels) Require(kernel.offset < size);
    const auto moved = neff::GraphWithBinaries(
        text, [](const std::string&) { return std::optional<std::string>("/other/place"); });
    if (moved.ok() && *moved) {
      const auto after = neff::KernelsOfGraph(**moved);
      Require(after.ok() && after->size() == kernels->size(), "as many kernels as before");
      for (const neff::GraphKernel& kernel : *after) Require(kernel.binary == "/other/place");
    }
  }
  if (neff::BinaryOfConfig(text)) {
    const auto moved = neff::ConfigWithBinary(text, "/other");
    if (moved.ok()) Require(neff::BinaryOfConfig(*moved) == "/other");
    if (moved.ok())
      Require(neff::ConfigWithoutBinary(*moved) == neff::ConfigWithoutBinary(text), "the rest");
  }
  const auto marker = neff::ParseLiteMarker(text);
  if (!marker.ok()) Require(marker.error().offset().value_or(size + 1) <= size);
  (void)neff::MetadataFaults(text, "00000000000000000000000000000000").ok();
  (void)neff::CommandFaults(std::string(text), "0", std::nullopt).size();
  const auto owner = neff::ParseOwnerFile(text);
  Require(!owner.ok() || owner->pid > 0);
  const auto leftover = neff::ParseLeftover(text);
  Require(!leftover || (leftover->pid > 0 && !leftover->of.empty()));
  return 0;
}
