// The safetensors format: a strict reader in bounded memory. Format facts: FORMAT.md.
#pragma once

#include <string>

#include "lib/tensor/tensor.h"

namespace nxdkit::safetensors {

// Reads the header, never the data. Tensors come in file (offset) order. The header is parsed from
// bounded reads; memory is in proportion to the number of tensors, not to the header's bytes.
//
// A faulty file is kCorrupt; the message begins with the reference's name of the fault and ": ". In
// order of precedence: HeaderTooSmall, HeaderTooLarge, InvalidHeaderLength, InvalidHeader (not
// UTF-8), InvalidHeaderDeserialization (JSON syntax or schema; also our three strict deviations),
// InvalidOffset, ValidationOverflow, MisalignedSlice, TensorInvalidInfo, MetadataIncompleteBuffer.
// Other errors: kNotFound and kIo, kLimit for our caps (FORMAT.md), kUnsupported for empty tensors
// with dims over 2^63-1.
Result<TensorFile> Open(const std::string& path);

// Whether the first bytes can be a safetensors header: u64 length within the file, then white
// space or '{'. False on any error.
Result<bool> LooksLikeSafetensors(const std::string& path);

}  // namespace nxdkit::safetensors
