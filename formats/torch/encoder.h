// Torch archives to be written, all read back by torch.load(weights_only=True): a pickle,
// one record for each tensor, and the zip around them. Format facts: FORMAT.md beside this file.
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
// A storage whose bytes are those of several tensors, one after the other: what a tensor of the
// pickle holds that is no box of one parameter.
struct JoinedTensor {
  OutputTensor as;                  // in the pickle
  std::vector<OutputTensor> parts;  // together as many bytes
  std::string bytes = {};           // or they are these
};
// The same, TensorIndex values referring to `tensors`. The encoder's tensors are all parts.
Result<std::unique_ptr<FileEncoder>> EncodeJoined(const PickleValue& root,
                                                  std::vector<JoinedTensor> tensors,
                                                  const std::string& archive_name);
// The whole archive of a value without tensors, as torch.save writes one into a stream.
Result<std::string> EncodeObject(const PickleValue& value);

}  // namespace nxdkit::torch
