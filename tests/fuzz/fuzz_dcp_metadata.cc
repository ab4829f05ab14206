// The pickle of a distributed checkpoint's .metadata: accepted metadata is complete, and written
// again it reads the same.
#include "formats/dcp/metadata_writer.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  const Result<dcp::Metadata> metadata = dcp::ParseMetadata(TextOf(data, size));
  if (!metadata.ok()) {
    Require(metadata.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  for (const dcp::TensorEntry& entry : metadata->tensors)
    Require(dcp::CheckCover(entry).ok(), "chunks cover their tensor");
  const Result<std::string> text = dcp::WriteMetadata(*metadata);
  if (!text.ok()) return 0;
  const Result<dcp::Metadata> again = dcp::ParseMetadata(*text);
  Require(again.ok(), "what is written is read");
  const Result<std::string> twice = dcp::WriteMetadata(*again);
  Require(twice.ok() && *twice == *text, "the same bytes");
  return 0;
}
