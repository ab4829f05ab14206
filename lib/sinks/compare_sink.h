// The sink that compares: the values that a plan predicts with those that another artifact stores.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/scratch_pool.h"
#include "lib/plan/executor.h"
#include "lib/plan/gather.h"

namespace nxdkit {

// How one stored tensor differs from the prediction.
struct Difference {
  uint32_t tensor = 0;   // index into the compared layout
  int64_t first = 0;     // row-major index of the first differing element
  int64_t count = 0;     // differing elements
  std::string expected;  // value and bits of the first, "0.125 (0x3e00)"
  std::string found;
};

std::string ValueText(Dtype dtype, const std::byte* element);

// The place of a stored element, for messages.
struct ElementPlace {
  std::optional<uint32_t> param;  // nullopt: padding or constant
  Shape logical;                  // index in the parameter
  Shape stored;                   // index in the stored tensor
};
ElementPlace PlaceOf(const TensorLayout& tensor, int64_t element);

// Compares bits: NaNs with different payloads differ, +0 and -0 differ. Memory per thread: twice
// a chunk.
class CompareSink : public Sink {
 public:
  // Is called with the stored bytes, packed, as Take is.
  using Seen =
      std::function<void(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes)>;

  // `outputs` are the executor's; outputs[i].dtype must be actual.stored[i].dtype.
  CompareSink(const BoundLayout& actual, const std::vector<OutputTensor>& outputs, Seen seen = {})
      : actual_(actual), outputs_(outputs), seen_(std::move(seen)) {}

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override;
  // Ordered by tensor. Call after the run.
  std::vector<Difference> differences() const;

 private:
  struct Scratch {
    PageBuffer chunk;
    Gatherer gatherer{256 << 10};
  };
  void Record(Difference difference);

  const BoundLayout& actual_;
  const std::vector<OutputTensor>& outputs_;
  const Seen seen_;
  mutable std::mutex mutex_;
  ScratchPool<Scratch> scratch_;
  std::map<uint32_t, Difference> differences_;
};

}  // namespace nxdkit
