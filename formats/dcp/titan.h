// PRIVATE: TorchTitan's own ways with a model's tensors.
//
// Its Llama turns neighbouring rows of q and k by rope, where transformers turns a row and the one
// half a head further: in each head, row 2 i + j there is row j head_dim / 2 + i here. Seen as
// [rows / 2, 2, columns] the two are transposed, and a head is two pieces; so that is the shape in
// which such a tensor is laid out, and in which its bytes are seen.
//
// From 0.3.0 on q, k and v of a layer are one parameter of the running model, whose rows go by key
// head: the query heads that use it, its key head, its value head. The model's state dict splits
// it; the optimizer's does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/dcp/layout.h"

namespace nxdkit::dcp {

// The tensors of TorchTitan's state dict; `stored` as for ModelTensors.
Result<std::vector<GlobalTensor>> TitanTensors(const models::Model& model, Style style,
                                               const HasTensor& stored);
// The parameters of the running model since 0.3.0, with wqkv in the places of wq, wk and wv.
Result<std::vector<GlobalTensor>> TitanParameters(const models::Model& model,
                                                  const HasTensor& stored);

// Buffers of mixtures of experts, which belong to TorchTitan's model and to no other: what its load
// balancing adds to the router's scores. `name` may have anything before it.
bool IsTitanBuffer(std::string_view name);
// Those of the model as it begins, of zeros in F32; TorchTitan loads nothing without them.
std::vector<TensorLayout> TitanBuffers(const models::Model& model, Style style);

// The layout of the chunk that is `box` of a tensor with rows in pairs.
TensorLayout CutPairedChunk(const GlobalTensor& tensor, const Box& box);

}  // namespace nxdkit::dcp
