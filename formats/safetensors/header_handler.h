// Private: the schema of the header, checked event by event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/safetensors/header.h"
#include "lib/json/json_stream.h"

namespace nxdkit::safetensors {

// Fills a Header. Accepts what the reference accepts, less three things: a tensor entry that is an
// array, a dtype that is an object, and (checked after the parse) two tensors of one name.
class HeaderHandler : public JsonHandler {
 public:
  explicit HeaderHandler(Header* header) : header_(*header) {}

  Status Key(std::string_view key) override;
  Status String(std::string_view value) override;
  Status Unsigned(uint64_t value) override;
  Status Scalar(JsonKind kind) override;
  Status Begin(JsonKind kind, uint64_t offset) override;
  Status End(JsonKind kind) override;

 private:
  // What the next event belongs to.
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
    kUnknown,      // a field that is to be skipped, at any depth
    kMetadata,     // null or the object
    kMetadataKeys,
    kMetadataValue,
  };
  static std::string_view Expectation(Place place);

  Status Wrong(std::string_view found) const;
  Status Complaint(std::string message) const;
  bool SkipScalar();
  Status RootKey(std::string_view key);
  Status FieldKey(std::string_view key);
  Status SetDtype(std::string_view name);
  Status AddDim(uint64_t value);
  Status AddOffset(uint64_t value);
  Status EndArray();
  Status EndEntry();
  StoredTensor& tensor() { return header_.tensors.back(); }

  Header& header_;
  Place place_ = Place::kRoot;
  bool metadata_seen_ = false;
  unsigned fields_seen_ = 0;  // bits of this tensor's known fields
  int unknown_depth_ = 0;     // open brackets inside the skipped field
  int offsets_ = 0;           // items of data_offsets so far
  Shape shape_;               // of this tensor; copied at its end, so that it has no slack
  uint64_t dims_ = 0;         // of the whole file
};

}  // namespace nxdkit::safetensors
