#include "formats/safetensors/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/safetensors/limits.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/base/utf8.h"

namespace nxdkit::safetensors {
namespace {

class Encoder : public FileEncoder {
 public:
  Encoder(std::vector<OutputTensor> tensors, std::vector<uint64_t> offsets, std::string frame,
          uint64_t file_bytes)
      : tensors_(std::move(tensors)),
        offsets_(std::move(offsets)),
        frame_(std::move(frame)),
        file_bytes_(file_bytes) {}

  const std::vector<OutputTensor>& tensors() const override { return tensors_; }
  uint64_t file_bytes() const override { return file_bytes_; }
  uint64_t data_offset(size_t index) const override { return offsets_.at(index); }
  bool needs_crc() const override { return false; }
  std::vector<Fragment> Frame(std::span<const uint32_t>) const override { return {{0, frame_}}; }

 private:
  std::vector<OutputTensor> tensors_;
  std::vector<uint64_t> offsets_;  // from the start of the file
  std::string frame_;              // length and header
  uint64_t file_bytes_;
};

// A JSON string: short escapes, \u00xx for other control characters, the rest raw. `text` must be
// UTF-8.
std::string Json(const std::string& text) { return nlohmann::json(text).dump(); }

// Dtype descending, then name ascending, which aligns every tensor of 16 bits or more.
std::vector<size_t> FileOrder(const std::vector<OutputTensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (tensors[a].dtype != tensors[b].dtype) return tensors[a].dtype > tensors[b].dtype;
    return tensors[a].name < tensors[b].name;
  });
  return order;
}

Status CheckNames(const std::vector<OutputTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const OutputTensor& tensor : tensors) {
    if (tensor.name == kMetadataKey)
      return BadUsage("the name __metadata__ is reserved in a safetensors file").on(tensor.name);
    if (ValidateUtf8(tensor.name))
      return BadUsage("the tensor's name is not UTF-8").on(tensor.name);
    names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  const auto twin = std::ranges::adjacent_find(names);
  if (twin == names.end()) return OkStatus();
  return BadUsage("two tensors of one name").on(*twin);
}

// Packed bytes of a tensor, if the format can hold it.
Result<uint64_t> TensorBytes(const OutputTensor& tensor) {
  if (static_cast<int>(tensor.dtype) >= kSafetensorsDtypeCount)
    return BadUsage("safetensors has no dtype {}", Name(tensor.dtype)).on(tensor.name);
  Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return Error(Errc::kUsage, bytes.error().message()).on(tensor.name);
  return bytes;
}

// `__metadata__` with its comma, when there is metadata.
Result<std::string> MetadataJson(const std::map<std::string, std::string>& metadata) {
  std::string json;
  for (const auto& [key, value] : metadata) {
    if (ValidateUtf8(key) || ValidateUtf8(value))
      return BadUsage("metadata entry {} is not UTF-8", key);
    json += fmt::format("{}{}:{}", json.empty() ? "" : ",", Json(key), Json(value));
  }
  if (!json.empty()) json = fmt::format("\"{}\":{{{}}}", kMetadataKey, json);
  return json;
}

std::string Frame(std::string header) {
  header.append((kHeaderAlign - header.size() % kHeaderAlign) % kHeaderAlign, ' ');
  std::string frame;
  AppendLittle(uint64_t{header.size()}, frame);
  return frame + header;
}

}  // namespace

Result<std::unique_ptr<FileEncoder>> Encode(std::vector<OutputTensor> tensors,
                                            const std::map<std::string, std::string>& metadata) {
  NXDKIT_TRY(CheckNames(tensors));
  NXDKIT_ASSIGN(std::string header, MetadataJson(metadata));
  std::vector<uint64_t> offsets(tensors.size());  // from the start of the data first
  uint64_t end = 0;
  uint64_t dims = 0;
  uint64_t count = 0;
  for (const size_t i : FileOrder(tensors)) {
    const OutputTensor& tensor = tensors[i];
    NXDKIT_ASSIGN(const uint64_t bytes, TensorBytes(tensor));
    const std::optional<uint64_t> next = CheckedAdd(end, bytes);
    if (!next || !CheckedCast<int64_t>(*next + 2 * kMaxHeaderBytes))
      return OverLimit("the tensors take more than 2^63 bytes").on(tensor.name);
    dims += tensor.shape.size();
    if (dims > kSpareDims + kDimsPerTensor * ++count)
      return OverLimit("shapes of {} dims together", dims).on(tensor.name);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.empty() ? "" : ",", Json(tensor.name), Name(tensor.dtype),
                          fmt::join(tensor.shape, ","), end, *next);
    offsets[i] = end;
    end = *next;
  }
  std::string frame = Frame("{" + header + "}");
  if (frame.size() - kLengthBytes > kMaxHeaderBytes)
    return OverLimit("header of {} bytes, the limit is {}", frame.size() - kLengthBytes,
                     kMaxHeaderBytes);
  for (uint64_t& offset : offsets) offset += frame.size();
  const uint64_t file_bytes = frame.size() + end;
  return std::unique_ptr<FileEncoder>(std::make_unique<Encoder>(
      std::move(tensors), std::move(offsets), std::move(frame), file_bytes));
}

}  // namespace nxdkit::safetensors
