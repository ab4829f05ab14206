#include "formats/artifact/canonical_reader.h"

namespace nxdkit::ops {

Status CanonicalReader::Read(size_t param, uint64_t offset, std::span<std::byte> to,
                             Gatherer& gatherer) const {
  return gatherer.Read(plan_.plan.tensors[param], bound_, plan_.outputs[param], offset, to);
}

}  // namespace nxdkit::ops
