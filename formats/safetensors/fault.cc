#include "formats/safetensors/fault.h"

#include <fmt/format.h>

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
  if (!error.file().empty()) named = std::move(named).in(error.file());
  if (!error.member().empty()) named = std::move(named).member(error.member());
  if (!error.tensor().empty()) named = std::move(named).on(error.tensor());
  if (error.offset()) named = std::move(named).at(*error.offset());
  if (!error.hint().empty()) named = std::move(named).hint(error.hint());
  return named;
}

}  // namespace nxdkit::safetensors
