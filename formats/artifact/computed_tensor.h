// PRIVATE to formats/artifact: tensors computed from files when they are read, all by one maker.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "lib/tensor/output.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::artifact {

// Parameter `param` of a maker, which has bytes(param), Read(param, offset, to) and path(); Read is
// thread-safe.
template <typename Maker>
class ComputedStorage : public Storage {
 public:
  ComputedStorage(std::shared_ptr<const Maker> maker, size_t param)
      : maker_(std::move(maker)), param_(param), bytes_(maker_->bytes(param)) {}
  uint64_t bytes() const override { return bytes_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    NXDKIT_CHECK(offset <= bytes_ && to.size() <= bytes_ - offset);
    return maker_->Read(param_, offset, to);
  }
  const std::string& path() const override { return maker_->path(); }
  uint64_t file_offset() const override { return 0; }

 private:
  std::shared_ptr<const Maker> maker_;  // shared by all parameters
  size_t param_;
  uint64_t bytes_;
};

// The whole parameter, with the dtype and shape of `output`.
template <typename Maker>
StoredTensor ComputedTensor(std::shared_ptr<const Maker> maker, size_t param,
                            const OutputTensor& output) {
  return {output.name,
          output.dtype,
          output.shape,
          RowMajorStrides(output.shape),
          0,
          false,
          std::make_shared<const ComputedStorage<Maker>>(std::move(maker), param)};
}

}  // namespace nxdkit::artifact
