// PRIVATE: the names and layout of a model's parameters in a distributed checkpoint, and how its
// tensors are cut into chunks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/dcp/options.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dcp {

// A tensor of a checkpoint, whole; layout.name is its key.
struct GlobalTensor {
  TensorLayout layout;
  Shape shape;      // as stored; layout.shape differs where rows come in pairs
  int tp_dim = -1;  // dimension of `shape` that tensor parallelism cuts; -1: whole on all ranks

  // Whether the layout has rows in pairs, [rows / 2, 2, columns]: see titan.h.
  bool has_pairs() const { return layout.shape.size() != shape.size(); }
};

// Whether there is a tensor of this name and shape.
using HasTensor = std::function<bool(const std::string& name, const Shape& shape)>;

// The model's tensors in a checkpoint of this style, in the model's order, including the lm_head of
// a tied model. kUnsupported, naming the parameter, when the style has no name for it.
//
// A tensor with rows in pairs has two pieces for every head, and the number of heads is only what a
// configuration claims: with `stored`, a tensor that is not there gets no pieces, and its own
// shape.
Result<std::vector<GlobalTensor>> ModelTensors(const models::Model& model, Style style,
                                               const HasTensor& stored = nullptr);

// The tensors for which an optimizer keeps state, under the optimizer's names: those of the running
// model, which TorchTitan's state dict of the model takes apart.
Result<std::vector<GlobalTensor>> StateTensors(const models::Model& model, Style style,
                                               const HasTensor& stored = nullptr);
// Both, for every style that has such a model; a name may occur more than once.
std::vector<GlobalTensor> TensorsOfAnyStyle(const models::Model& model, const HasTensor& stored);
// A tensor with rows in the model's order, cut as the model's parameters are.
GlobalTensor AsItIs(const models::Model& model, TensorLayout layout);

// The layout of the chunk that is `box` of the tensor.
TensorLayout CutChunk(const GlobalTensor& tensor, const Box& box);
// The chunk's bytes, viewed in the shape of its layout.
StoredTensor SeenAs(StoredTensor chunk, const Shape& shape);

// Each mesh rank's part of the tensor; ranks with none are left out, and copies are stored once.
struct RankBox {
  int rank = 0;
  Box box;
};
std::vector<RankBox> CutOver(const GlobalTensor& tensor, const Mesh& mesh);

}  // namespace nxdkit::dcp
