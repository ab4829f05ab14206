// The layout rules, in the reference's order; the first failing one names the fault.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "formats/safetensors/fault.h"
#include "formats/safetensors/header.h"
#include "lib/base/checked.h"

namespace nxdkit::safetensors {
namespace {

constexpr size_t kMaxShownDims = 8;

uint64_t Dim(int64_t stored) { return static_cast<uint64_t>(stored); }

std::string DimsText(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMaxShownDims; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", Dim(shape[i]));
  if (shape.size() > kMaxShownDims) text += fmt::format(", ... {} dims", shape.size());
  return text + "]";
}

// Brings the entries into file order, which they are in already unless the file is odd.
void SortByOffsets(Header& header) {
  const size_t count = header.tensors.size();
  const auto key = [&](size_t i) {
    return std::tuple(header.tensors[i].offset, header.places[i].end);
  };
  bool sorted = true;
  for (size_t i = 1; i < count && sorted; ++i) sorted = key(i - 1) <= key(i);
  if (sorted) return;

  std::vector<uint32_t> order(count);  // order[i]: which entry comes to place i
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, key);
  for (uint32_t start = 0; start < count; ++start) {
    for (uint32_t to = start; order[to] != to;) {  // along the cycle of `start`, once
      const uint32_t from = std::exchange(order[to], to);
      if (from == start) break;
      std::swap(header.tensors[to], header.tensors[from]);
      std::swap(header.places[to], header.places[from]);
      to = from;
    }
  }
}

// Product of the dims from the left, starting from 1; nullopt when it passes 2^64-1. [0, max, max]
// has a product, [max, max, 0] has none: as in the reference.
std::optional<uint64_t> Product(const Shape& shape) {
  std::optional<uint64_t> product = 1;
  for (const int64_t dim : shape) {
    product = CheckedMul(*product, Dim(dim));
    if (!product) break;
  }
  return product;
}

// The fault of one entry, or nothing; `expected` is where the entry before it ended.
struct Finding {
  Fault fault;
  std::string message;
};
std::optional<Finding> CheckEntry(const StoredTensor& tensor, uint64_t end, uint64_t expected) {
  const uint64_t begin = tensor.offset;
  if (begin != expected)
    return Finding{Fault::kInvalidOffset,
                   fmt::format("data_offsets [{}, {}] where the data before ends at {}", begin, end,
                               expected)};
  if (end < begin)
    return Finding{Fault::kInvalidOffset,
                   fmt::format("data_offsets [{}, {}] end before they begin", begin, end)};
  const int element_bits = Info(tensor.dtype).bits;
  const std::optional<uint64_t> elements = Product(tensor.shape);
  if (!elements)
    return Finding{Fault::kValidationOverflow,
                   fmt::format("shape {} has more than 2^64-1 elements", DimsText(tensor.shape))};
  const std::optional<uint64_t> bits = CheckedMul(*elements, static_cast<uint64_t>(element_bits));
  if (!bits)
    return Finding{
        Fault::kValidationOverflow,
        fmt::format("{} elements of {} have more than 2^64-1 bits", *elements, Name(tensor.dtype))};
  if (*bits % 8 != 0)
    return Finding{Fault::kMisalignedSlice,
                   fmt::format("{} elements of {} are {} bits, not whole bytes", *elements,
                               Name(tensor.dtype), *bits)};
  if (end - begin != *bits / 8)
    return Finding{Fault::kTensorInvalidInfo,
                   fmt::format("data_offsets [{}, {}] hold {} bytes, {} {} needs {}", begin, end,
                               end - begin, Name(tensor.dtype), DimsText(tensor.shape), *bits / 8)};
  return std::nullopt;
}

}  // namespace

Status ValidateLayout(Header& header, uint64_t data_begin, uint64_t file_bytes, Fault* fault) {
  SortByOffsets(header);
  uint64_t end = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const StoredTensor& tensor = header.tensors[i];
    const EntryPlace& place = header.places[i];
    if (std::optional<Finding> finding = CheckEntry(tensor, place.end, end))
      return Refuse(finding->fault, finding->message, fault).on(tensor.name).at(place.offset);
    end = place.end;
  }
  if (end != file_bytes - data_begin)
    return Refuse(Fault::kMetadataIncompleteBuffer,
                  fmt::format("the tensors take {} bytes, the file has {} bytes of data", end,
                              file_bytes - data_begin),
                  fault)
        .at(data_begin);

  for (size_t i = 0; i < header.tensors.size(); ++i) {
    StoredTensor& tensor = header.tensors[i];
    if (!ElementCount(tensor.shape))
      return Error(Errc::kUnsupported,
                   fmt::format("empty tensor of shape {}, dims over 2^63-1 are not supported",
                               DimsText(tensor.shape)))
          .on(tensor.name)
          .at(header.places[i].offset);
    tensor.strides = RowMajorStrides(tensor.shape);
  }
  return OkStatus();
}

}  // namespace nxdkit::safetensors
