// A block of memory for intermediate results: it grows, never shrinks, and is never cleared. Fresh
// pages cost more than the arithmetic on them, so these are kept from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace nxdkit::trainer {

template <typename T>
class Array {
 public:
  // Room for `size` elements; growing discards the contents.
  T* Take(int64_t size) {
    if (static_cast<size_t>(size) > capacity_) {
      data_.reset();
      data_ = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(size));
      capacity_ = static_cast<size_t>(size);
    }
    return data_.get();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  size_t capacity_ = 0;
};

}  // namespace nxdkit::trainer
