// PRIVATE: TorchTitan's own layout of a model's tensors.
//
// Its Llama applies rope to neighbouring rows of q and k, transformers to a row and the one half a
// head further: in each head, row 2 i + j there is row j head_dim / 2 + i here. Seen as [rows / 2,
// 2, columns] the two are transposed, and a head is two pieces; such a tensor is laid out, and its
// bytes are viewed, in that shape.
//
// From 0.3.0 on q, k and v of a layer are one parameter of the running model, with its rows ordered
// by key head: the query heads that use it, its key head, its value head. The model's state dict
// splits it; the optimizer's does not.
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

// Whether the name is of a buffer that only TorchTitan's mixtures of experts have: the load
// balancing term added to the router's scores. `name` may have any prefix.
bool IsTitanBuffer(std::string_view name);
// These buffers of the model in their initial state, F32 zeros; TorchTitan loads nothing without
// them.
std::vector<TensorLayout> TitanBuffers(const models::Model& model, Style style);

// The layout of the chunk that is `box` of a tensor with rows in pairs.
TensorLayout CutPairedChunk(const GlobalTensor& tensor, const Box& box);

}  // namespace nxdkit::dcp
