// Any bytes as a manifest: refused with a reason, or written again it reads back the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/manifest/manifest.h"
#include "tests/fuzz/fuzzing.h"

using namespace nxdkit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = TextOf(data, size);
  const Result<manifest::Manifest> read = manifest::ReadManifest(text);
  if (!read.ok()) {
    const Errc code = read.error().code();
    Require(code == Errc::kCorrupt || code == Errc::kUnsupported, read.error().ToString());
    Require(!read.error().message().empty(), "a message");
    return 0;
  }
  const Result<std::string> written = manifest::WriteManifest(*read);
  Require(written.ok(), written.ok() ? "" : written.error().ToString());
  const Result<manifest::Manifest> again = manifest::ReadManifest(*written);
  Require(again.ok(), again.ok() ? "" : again.error().ToString());
  Require(again->model.digest == read->model.digest, "the digest");
  Require(manifest::WriteManifest(*again).value() == *written, "the same bytes");
  return 0;
}
