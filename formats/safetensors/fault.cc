#include "formats/safetensors/fault.h"

#include <fmt/core.h>

#include <utility>

namespace nxdkit::safetensors {

std::string_view FaultName(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "None";
    case Fault::kHeaderTooSmall:
      return "HeaderTooSmall";
    case Fault::kHeaderTooLarge:
      return "HeaderTooLarge";
    case Fault::kInvalidHeaderLength:
      return "InvalidHeaderLength";
    case Fault::kInvalidHeader:
      return "InvalidHeader";
    case Fault::kInvalidHeaderDeserialization:
      return "InvalidHeaderDeserialization";
    case Fault::kInvalidOffset:
      return "InvalidOffset";
    case Fault::kValidationOverflow:
      return "ValidationOverflow";
    case Fault::kMisalignedSlice:
      return "MisalignedSlice";
    case Fault::kTensorInvalidInfo:
      return "TensorInvalidInfo";
    case Fault::kMetadataIncompleteBuffer:
      return "MetadataIncompleteBuffer";
  }
  return "";
}

Error Refuse(Fault fault, std::string_view message, Fault* out) {
  *out = fault;
  return Error(Errc::kCorrupt, fmt::format("{}: {}", FaultName(fault), message));
}

Error Refuse(Fault fault, Error error, Fault* out) {
  if (error.code() != Errc::kCorrupt) return error;
  Error named = Refuse(fault, error.message(), out);
  named = std::move(named)
              .in(error.file())
              .member(error.member())
              .on(error.tensor())
              .hint(error.hint());
  if (error.offset()) named = std::move(named).at(*error.offset());
  return named;
}

}  // namespace nxdkit::safetensors
