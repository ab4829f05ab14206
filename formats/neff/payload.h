// The listing of a NEFF's archive: names and sizes, never contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/neff/header.h"
#include "lib/system/file.h"

namespace nxdkit::neff {

struct Member {
  std::string name;  // any bytes: escape before showing it
  uint64_t bytes = 0;
};

struct ListLimits {
  size_t members = 100'000;
  uint64_t bytes = uint64_t{4} << 30;  // of the decompressed archive
  size_t name_bytes = 4096;            // of one name; a longer one is damage
  std::function<Status()> poll;
};

struct Listing {
  std::vector<Member> members;  // in the order of the archive
  std::string cut_short;        // why it ended early: a limit, or damage; "" when complete
};

// Damage after the header is reported in `cut_short`, with the members before it. Errors are those
// of reading the file, and kInterrupted.
Result<Listing> ListPayload(const File& file, const Located& neff, const ListLimits& limits = {});

size_t CountGraphs(const Listing& listing);  // The number of graphs: folders sg00, sg01, ...

}  // namespace nxdkit::neff
