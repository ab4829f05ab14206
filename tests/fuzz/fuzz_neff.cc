// Any bytes as a NEFF and as a file with NEFFs in it: the header, the scan, the archive.
#include <string_view>

#include "formats/neff/payload.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

namespace {

void Check(const nxdkit::File& file, const nxdkit::neff::Located& neff) {
  using namespace nxdkit;
  Require(neff.header.data_bytes > 0);
  Require(neff.data_offset() <= file.bytes());
  Require(neff.header.data_bytes <= file.bytes() - neff.data_offset());
  Require(neff.header.build.size() <= 128 && neff.header.name.size() <= 256);
  const neff::ListLimits limits{.members = 100, .bytes = 1 << 20, .name_bytes = 256, .poll = {}};
  const Result<neff::Listing> listing = neff::ListPayload(file, neff, limits);
  Require(listing.ok());
  Require(listing->members.size() <= limits.members);
  for (const neff::Member& member : listing->members)
    Require(member.name.size() <= limits.name_bytes);
  Require(neff::HashMatches(file, neff).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile memory;
  memory.Set(TextOf(data, size));
  const Result<File> file = File::OpenRead(memory.path());
  Require(file.ok());
  const Result<neff::Located> first = neff::ReadAt(*file, 0, file->bytes());
  if (first.ok()) {
    Check(*file, *first);
  } else {
    Require(first.error().code() == Errc::kCorrupt);
    Require(first.error().offset().value_or(size + 1) <= size);
  }
  const Result<std::vector<neff::Located>> found = neff::Find(*file, 0, file->bytes(), 4);
  Require(found.ok() || found.error().code() == Errc::kLimit);
  if (!found.ok()) return 0;
  uint64_t end = 0;
  for (const neff::Located& located : *found) {
    Require(located.offset >= end);
    Require(located.payload != neff::Payload::kUnknown);
    end = located.data_offset() + located.header.data_bytes;
    Check(*file, located);
  }
  return 0;
}
