// The safetensors format: strict reader in bounded memory, byte-exact canonical writer.
// Format facts: FORMAT.md beside this file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/tensor/output.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::safetensors {

// The reference's error variants that a reader can meet, in its order of precedence, plus ours.
enum class Fault {
  kNone,
  kHeaderTooSmall,
  kHeaderTooLarge,
  kInvalidHeaderLength,
  kInvalidHeader,                 // not UTF-8
  kInvalidHeaderDeserialization,  // JSON syntax or schema; also our three strict deviations
  kInvalidOffset,
  kValidationOverflow,
  kMisalignedSlice,
  kTensorInvalidInfo,
  kMetadataIncompleteBuffer,
};
std::string_view FaultName(Fault fault);  // the reference's spelling: "HeaderTooSmall"

// Reads the header, never the data. Tensors come in file (offset) order. The header is parsed from
// bounded reads; memory is in proportion to the number of tensors, not to the header's bytes.
// What is wrong with the file is kCorrupt with the fault's name in the message; `fault`, when not
// null, says which, and is kNone for all else: kNotFound and kIo, kLimit for our caps (FORMAT.md),
// kUnsupported for empty tensors with dims over 2^63-1.
Result<TensorFile> Open(const std::string& path, Fault* fault = nullptr);

// Whether the first bytes can be a safetensors header: u64 length within the file, then white
// space or '{'. False on any error.
bool LooksLikeSafetensors(const std::string& path);

// The canonical file: tensors sorted by dtype descending then name bytes, compact header padded
// with spaces to 8 bytes, `__metadata__` first and sorted when not empty. kUsage on a duplicate
// name, the name "__metadata__", a dtype the format lacks; kLimit on a header over 100 MB.
Result<std::unique_ptr<FileEncoder>> Encode(std::vector<OutputTensor> tensors,
                                            const std::map<std::string, std::string>& metadata);

}  // namespace nxdkit::safetensors
