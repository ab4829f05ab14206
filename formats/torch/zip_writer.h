// Where everything of an output archive lies, decided before any data is known.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/tensor/output.h"

namespace nxdkit::torch {

// A record to be written, all of them stored (not deflated). Its data is either `contents`, or
// `bytes` bytes that somebody else writes.
struct OutputRecord {
  std::string name;
  std::string contents;
  uint64_t bytes = 0;  // of the data; set by LayOutZip when there are contents
  bool external = false;
  uint64_t header_offset = 0;  // set by LayOutZip
  uint64_t data_offset = 0;    // set by LayOutZip: a multiple of zip::kDataAlignment
};

struct ZipLayout {
  std::vector<OutputRecord> records;
  uint64_t directory_offset = 0;
  uint64_t file_bytes = 0;
};

// Places the records one after another. kUnsupported when a name is over 65535 bytes or the file
// would be over 2^63 bytes.
Result<ZipLayout> LayOutZip(std::vector<OutputRecord> records);

// All bytes but the external data. `crcs` belong to the external records, in their order.
std::vector<Fragment> ZipFrame(const ZipLayout& layout, std::span<const uint32_t> crcs);

}  // namespace nxdkit::torch
