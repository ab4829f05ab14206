#include "formats/safetensors/header_json.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include "formats/safetensors/limits.h"
#include "lib/base/errors.h"
#include "lib/json/json_stream.h"

namespace nxdkit::safetensors {
namespace {

constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};
constexpr unsigned kAllFields = 7;
constexpr size_t kMaxShown = 80;

std::string Quoted(std::string_view text) {
  if (text.size() <= kMaxShown) return fmt::format("\"{}\"", text);
  return fmt::format("a string of {} bytes", text.size());
}

// Where in the header the next event belongs.
enum class Place {
  kRoot,     // the object around everything
  kTensors,  // its keys
  kEntry,    // the object of a tensor
  kFields,   // its keys
  kDtype,
  kShape,        // the array
  kDims,         // its items
  kOffsets,      // the array
  kOffsetItems,  // its items
  kUnknown,      // a field to skip, at any depth
  kMetadata,     // null or the object
  kMetadataKeys,
  kMetadataValue,
};

// The expected content of a place, for messages.
std::string_view Expectation(Place place) {
  constexpr std::string_view kTensor = "a tensor is an object with dtype, shape and data_offsets";
  constexpr std::string_view kMetadata = "__metadata__ is null or an object of strings";
  constexpr auto kTexts = std::to_array<std::string_view>(
      {"the header is an object of tensors", kTensor, kTensor, "a field has a value",
       "dtype is one of the format's 22 names, as a string", "shape is an array of integers",
       "a dim is an integer from 0 to 2^64-1", "data_offsets is an array of two integers",
       "an offset is an integer from 0 to 2^64-1", "a field has a value", kMetadata, kMetadata,
       "a value of __metadata__ is a string"});
  static_assert(kTexts.size() == static_cast<size_t>(Place::kMetadataValue) + 1);
  return kTexts[static_cast<size_t>(place)];
}

// Fills a Header.
class HeaderHandler : public JsonHandler {
 public:
  explicit HeaderHandler(Header* header) : header_(*header) {}

  Status Key(std::string_view key) override {
    if (place_ == Place::kTensors) return RootKey(key);
    if (place_ == Place::kFields) return FieldKey(key);
    if (place_ != Place::kMetadataKeys) return OkStatus();  // inside a skipped field
    if (header_.metadata.size() == kMaxMetadataEntries)
      return OverLimit("__metadata__ has more than {} entries", kMaxMetadataEntries);
    header_.metadata.emplace_back(key, std::string());
    place_ = Place::kMetadataValue;
    return OkStatus();
  }

  Status String(std::string_view value) override {
    if (SkipScalar()) return OkStatus();
    if (place_ == Place::kDtype) return SetDtype(value);
    if (place_ != Place::kMetadataValue) return Wrong(Quoted(value));
    header_.metadata.back().second = value;
    place_ = Place::kMetadataKeys;
    return OkStatus();
  }

  Status Unsigned(uint64_t value) override {
    if (SkipScalar()) return OkStatus();
    if (place_ == Place::kDims) return AddDim(value);
    if (place_ == Place::kOffsetItems) return AddOffset(value);
    return Wrong(fmt::format("{}", value));
  }

  Status Scalar(JsonKind kind) override {
    if (SkipScalar()) return OkStatus();
    if (place_ != Place::kMetadata || kind != JsonKind::kNull) return Wrong(JsonKindName(kind));
    place_ = Place::kTensors;
    return OkStatus();
  }

  Status Begin(JsonKind kind, uint64_t offset) override {
    const bool object = kind == JsonKind::kObject;
    if (place_ == Place::kUnknown) {
      ++unknown_depth_;
    } else if (place_ == Place::kRoot && object) {
      place_ = Place::kTensors;
    } else if (place_ == Place::kEntry && object) {
      header_.places.back().offset = static_cast<uint32_t>(offset);
      fields_seen_ = 0;
      place_ = Place::kFields;
    } else if (place_ == Place::kShape && !object) {
      shape_.clear();
      place_ = Place::kDims;
    } else if (place_ == Place::kOffsets && !object) {
      offsets_ = 0;
      place_ = Place::kOffsetItems;
    } else if (place_ == Place::kMetadata && object) {
      place_ = Place::kMetadataKeys;
    } else {
      return Wrong(JsonKindName(kind));
    }
    return OkStatus();
  }

  Status End(JsonKind kind) override {
    if (place_ == Place::kUnknown) {
      if (--unknown_depth_ == 0) place_ = Place::kFields;
      return OkStatus();
    }
    if (kind == JsonKind::kArray) return EndArray();
    if (place_ == Place::kFields) return EndEntry();
    if (place_ == Place::kMetadataKeys) place_ = Place::kTensors;
    return OkStatus();
  }

 private:
  StoredTensor& tensor() { return header_.tensors.back(); }

  Status Complaint(std::string message) const {
    Error error(Errc::kCorrupt, std::move(message));
    const bool in_tensor = place_ >= Place::kEntry && place_ <= Place::kUnknown;
    const bool in_metadata = place_ >= Place::kMetadata;
    if (in_tensor) return std::move(error).on(header_.tensors.back().name);
    if (in_metadata) return std::move(error).member(kMetadataKey);
    return error;
  }

  Status Wrong(std::string_view found) const {
    return Complaint(fmt::format("found {}, but {}", found, Expectation(place_)));
  }

  Status RootKey(std::string_view key) {
    if (key != kMetadataKey) {
      header_.tensors.emplace_back().name = key;
      header_.places.emplace_back();
      place_ = Place::kEntry;
      return OkStatus();
    }
    place_ = Place::kMetadata;
    if (std::exchange(metadata_seen_, true)) return Complaint("__metadata__ is there twice");
    return OkStatus();
  }

  Status FieldKey(std::string_view key) {
    constexpr std::array kPlaces = {Place::kDtype, Place::kShape, Place::kOffsets};
    for (size_t i = 0; i < kFieldNames.size(); ++i) {
      if (key != kFieldNames[i]) continue;
      if (fields_seen_ & (1u << i)) return Complaint(fmt::format("field {} is there twice", key));
      fields_seen_ |= 1u << i;
      place_ = kPlaces[i];
      return OkStatus();
    }
    place_ = Place::kUnknown;
    return OkStatus();
  }

  // True when the scalar belongs to a skipped field.
  bool SkipScalar() {
    if (place_ != Place::kUnknown) return false;
    if (unknown_depth_ == 0) place_ = Place::kFields;
    return true;
  }

  Status SetDtype(std::string_view name) {
    const std::optional<Dtype> dtype = DtypeFromName(name);
    if (!dtype || static_cast<int>(*dtype) >= kSafetensorsDtypeCount)
      return Complaint(fmt::format("dtype {} is none of the format's 22", Quoted(name)));
    tensor().dtype = *dtype;
    place_ = Place::kFields;
    return OkStatus();
  }

  Status AddDim(uint64_t value) {
    const uint64_t limit = kSpareDims + kDimsPerTensor * header_.tensors.size();
    if (++dims_ > limit)
      return OverLimit("the first {} tensors have more than {} dims together",
                       header_.tensors.size(), limit)
          .on(tensor().name);
    shape_.push_back(static_cast<int64_t>(value));
    return OkStatus();
  }

  Status AddOffset(uint64_t value) {
    if (offsets_ == 2) return Complaint("data_offsets has more than two items");
    if (offsets_++ == 0)
      tensor().offset = value;
    else
      header_.places.back().end = value;
    return OkStatus();
  }

  Status EndArray() {
    if (place_ == Place::kDims) tensor().shape = shape_;
    if (place_ == Place::kOffsetItems && offsets_ != 2)
      return Complaint(fmt::format("data_offsets has {} items instead of two", offsets_));
    place_ = Place::kFields;
    return OkStatus();
  }

  Status EndEntry() {
    for (size_t i = 0; i < kFieldNames.size() && fields_seen_ != kAllFields; ++i)
      if (!(fields_seen_ & (1u << i)))
        return Complaint(fmt::format("{} is missing", kFieldNames[i]));
    place_ = Place::kTensors;
    return OkStatus();
  }

  Header& header_;
  Place place_ = Place::kRoot;
  bool metadata_seen_ = false;
  unsigned fields_seen_ = 0;  // bits of this tensor's known fields
  int unknown_depth_ = 0;     // open brackets inside the skipped field
  int offsets_ = 0;           // items of data_offsets so far
  Shape shape_;               // of this tensor; copied at its end, so that it has no slack
  uint64_t dims_ = 0;         // of the whole file
};

}  // namespace

Result<Header> ReadHeaderJson(const File& file, uint64_t bytes) {
  Header header;
  HeaderHandler handler(&header);
  const Status parsed = ReadJsonStream(file, kLengthBytes, bytes, handler);
  if (parsed.ok()) return header;
  const Error& error = parsed.error();
  if (error.code() != Errc::kCorrupt) return error;
  Error refused = Corrupt("InvalidHeaderDeserialization: {}", error.message())
                      .in(error.file())
                      .member(error.member())
                      .on(error.tensor())
                      .hint(error.hint());
  return error.offset() ? std::move(refused).at(*error.offset()) : refused;
}

}  // namespace nxdkit::safetensors
