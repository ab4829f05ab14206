#include "formats/models/sample_model.h"

#include <fmt/core.h>
#include <zlib.h>

#include <cstring>

#include "formats/models/rank_tensors.h"

namespace nxdkit::models {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

uint64_t Key(uint64_t seed, const std::string& name) {
  const uint64_t crc =
      crc32(0, reinterpret_cast<const Bytef*>(name.data()), static_cast<uInt>(name.size()));
  return (crc << 16) ^ ((seed * 0x9E3779B1) & 0xffffffff);
}

// The finaliser of splitmix64.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t Sample(uint64_t key, uint64_t index) { return Mix((index + 1) * kGolden + key); }

uint16_t ToBf16(uint64_t x) {
  return static_cast<uint16_t>(((x & 1) << 15) | ((112 + ((x >> 1) % 12)) << 7) |
                               ((x >> 20) & 0x7f));
}

uint32_t ToF32(uint64_t x) {
  return static_cast<uint32_t>(((x & 1) << 31) | ((112 + ((x >> 1) % 12)) << 23) |
                               ((x >> 20) & 0x7fffff));
}

class SampleStorage : public Storage {
 public:
  SampleStorage(uint64_t seed, const std::string& name, Dtype dtype, uint64_t elements)
      : key_(Key(seed, name)),
        element_bytes_(ElementBytes(dtype)),
        bytes_(elements * element_bytes_),
        path_("generated:" + name) {}

  uint64_t bytes() const override { return bytes_; }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }

  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_ || to.size() > bytes_ - offset || offset % element_bytes_ != 0 ||
        to.size() % element_bytes_ != 0)
      return Error(Errc::kInternal, fmt::format("{} bytes at {} of {}", to.size(), offset, bytes_))
          .in(path_);
    uint64_t index = offset / element_bytes_;
    for (size_t at = 0; at < to.size(); at += element_bytes_, ++index) {
      const uint64_t x = Sample(key_, index);
      const uint32_t bits = element_bytes_ == 2 ? ToBf16(x) : ToF32(x);
      std::memcpy(to.data() + at, &bits, element_bytes_);
    }
    return OkStatus();
  }

 private:
  uint64_t key_;
  uint64_t element_bytes_;
  uint64_t bytes_;
  std::string path_;
};

}  // namespace

uint16_t SampleBf16(uint64_t seed, const std::string& name, uint64_t index) {
  return ToBf16(Sample(Key(seed, name), index));
}

BoundLayout SampleCheckpoint(const Model& model, uint64_t seed, Dtype dtype) {
  NXDKIT_CHECK(dtype == Dtype::kBF16 || dtype == Dtype::kF32);
  BoundLayout bound;
  bound.layout.files.push_back({"generated", -1, -1});
  bound.layout.tensors = HfTensors(model, false);
  for (const TensorLayout& tensor : bound.layout.tensors) {
    StoredTensor stored;
    stored.name = tensor.name;
    stored.dtype = dtype;
    stored.shape = tensor.shape;
    stored.strides = RowMajorStrides(tensor.shape);
    stored.storage =
        std::make_shared<SampleStorage>(seed, tensor.name, dtype, *ElementCount(tensor.shape));
    bound.stored.push_back(std::move(stored));
  }
  return bound;
}

}  // namespace nxdkit::models
