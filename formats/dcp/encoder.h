// A data file of a distributed checkpoint: torch archives, one after another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/tensor/output.h"

namespace nxdkit::dcp {

std::string DataFileName(int rank);  // "__3_0.distcp"

// The place of an item in its file.
struct ItemRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The whole archive of an object. Shared: thousands of parameters have the same options.
using ObjectArchive = std::shared_ptr<const std::string>;

struct EncodedFile {
  std::unique_ptr<FileEncoder> encoder;
  std::vector<ItemRange> objects;
  std::vector<ItemRange> tensors;
};

// Objects first, as torch writes them, then every tensor in an archive of its own. `objects` are
// whole archives, `tensors` chunks with the shapes that they have in the file.
Result<EncodedFile> EncodeItems(std::vector<ObjectArchive> objects,
                                std::vector<OutputTensor> tensors);

}  // namespace nxdkit::dcp
