// PRIVATE to formats/ops. Tensors that are computed as they are read, from files, by one maker.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/tensor.h"

namespace nxdkit::ops {

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

// What one reader at a time needs, made when all are in use, and used again. Thread-safe.
template <typename Scratch>
class ScratchPool {
 public:
  // The status of `use`, called with a Scratch that nobody else has.
  template <typename Use>
  Status With(const Use& use) const {
    std::unique_ptr<Scratch> scratch = Borrow();
    Status status = use(*scratch);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(scratch));
    return status;
  }

 private:
  std::unique_ptr<Scratch> Borrow() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return scratch;
  }

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace nxdkit::ops
