// PRIVATE to trainer/learner. Numbers of our own as bytes that a tensor can be read from.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "lib/tensor/tensor.h"

namespace nxdkit::trainer {

class FloatStorage : public Storage {
 public:
  explicit FloatStorage(std::vector<float> values) : values_(std::move(values)) {}
  uint64_t bytes() const override { return values_.size() * sizeof(float); }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes() || to.size() > bytes() - offset)
      return Error(Errc::kInternal, "read past the end of numbers in memory");
    if (!to.empty())
      std::memcpy(to.data(), reinterpret_cast<const std::byte*>(values_.data()) + offset,
                  to.size());
    return OkStatus();
  }

 private:
  const std::vector<float> values_;
  const std::string path_ = "memory";
};

}  // namespace nxdkit::trainer
