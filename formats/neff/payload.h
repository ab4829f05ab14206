// What is in the archive of a NEFF: names and sizes, never contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/neff/header.h"
#include "lib/system/file.h"

namespace nxdkit::neff {

struct Member {
  std::string name;  // any bytes: escape it before it is shown
  uint64_t bytes = 0;
};

struct ListLimits {
  size_t members = 100'000;
  uint64_t bytes = uint64_t{4} << 30;  // of the archive after decompression
  size_t name_bytes = 4096;            // of one name; longer ones are damage
  std::function<Status()> poll;
};

struct Listing {
  std::vector<Member> members;  // in the order of the archive
  std::string cut_short;        // why it ended early: a limit, or damage; "" when it is whole
};

// Damage behind the header is told in `cut_short`, with the members before it. Errors are those of
// reading the file, and kInterrupted.
Result<Listing> ListPayload(const File& file, const Located& neff, const ListLimits& limits = {});

size_t CountGraphs(const Listing& listing);  // Graphs of the archive: folders sg00, sg01, ...

}  // namespace nxdkit::neff
