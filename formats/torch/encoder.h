// Writes torch archives, all of them readable by torch.load(weights_only=True): a pickle, one
// record for each tensor, and the zip around them. Format facts: FORMAT.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/torch/pickle_value.h"
#include "lib/tensor/output.h"

namespace nxdkit::torch {

// `archive_name` is the top folder inside the zip; torch uses the file's stem up to the last dot.
//
// A flat plain dict name -> tensor, in the order given.
Result<std::unique_ptr<FileEncoder>> EncodeStateDict(std::vector<OutputTensor> tensors,
                                                     const std::string& archive_name);
// One bare tensor (xser's tensor_<tid>.pt). The tensor's name is ignored.
Result<std::unique_ptr<FileEncoder>> EncodeTensor(OutputTensor tensor,
                                                  const std::string& archive_name);
// Any tree; TensorIndex values refer to `tensors`.
Result<std::unique_ptr<FileEncoder>> EncodeValue(const PickleValue& root,
                                                 std::vector<OutputTensor> tensors,
                                                 const std::string& archive_name);
// A storage whose bytes are those of several tensors, one after another, for a tensor of the pickle
// that is not a box of one parameter.
struct JoinedTensor {
  OutputTensor as;                  // the tensor in the pickle
  std::vector<OutputTensor> parts;  // as many bytes in total
  std::string bytes = {};           // or these bytes instead
};
// EncodeValue with TensorIndex values that refer to the JoinedTensors. The encoder's tensors are
// all their parts.
Result<std::unique_ptr<FileEncoder>> EncodeJoined(const PickleValue& root,
                                                  std::vector<JoinedTensor> tensors,
                                                  const std::string& archive_name);
// The whole archive of a value without tensors, as torch.save writes one into a stream.
Result<std::string> EncodeObject(const PickleValue& value);

}  // namespace nxdkit::torch
