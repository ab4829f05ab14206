// PRIVATE: how a model's parameters are named and laid out in a distributed checkpoint, and how its
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
  Shape shape;      // in the checkpoint; layout.shape is another one where rows come in pairs
  int tp_dim = -1;  // of `shape`, that tensor parallelism cuts; -1: every rank has all of it

  // Whether the layout sees rows in pairs, [rows / 2, 2, columns]: see titan.h.
  bool has_pairs() const { return layout.shape.size() != shape.size(); }
};

// Whether there is a tensor of this name and shape.
using HasTensor = std::function<bool(const std::string& name, const Shape& shape)>;

// The tensors that a checkpoint of this style holds of the model, in the model's order; of a tied
// model the lm_head too. kUnsupported, naming the parameter, when the style has no name for it.
//
// A tensor with rows in pairs has two pieces for every head, and how many heads there are is what a
// configuration says: with `stored`, one that is not there is left without pieces and in its own
// shape.
Result<std::vector<GlobalTensor>> ModelTensors(const models::Model& model, Style style,
                                               const HasTensor& stored = nullptr);

// The tensors that an optimizer keeps its state of, under the names that it has for them: those of
// the running model, which TorchTitan's state dict of the model takes apart.
Result<std::vector<GlobalTensor>> StateTensors(const models::Model& model, Style style,
                                               const HasTensor& stored = nullptr);
// Both, of every style that has such a model; a name may be there more than once.
std::vector<GlobalTensor> TensorsOfAnyStyle(const models::Model& model, const HasTensor& stored);
// A tensor with the model's rows in their order, cut as its parameters are.
GlobalTensor AsItIs(const models::Model& model, TensorLayout layout);

// The layout of the chunk that is `box` of the tensor.
TensorLayout CutChunk(const GlobalTensor& tensor, const Box& box);
// The chunk's bytes in the shape of its layout.
StoredTensor SeenAs(StoredTensor chunk, const Shape& shape);

// The part that each rank of the mesh has of the tensor; ranks without any are left out, and copies
// are stored once.
struct RankBox {
  int rank = 0;
  Box box;
};
std::vector<RankBox> CutOver(const GlobalTensor& tensor, const Mesh& mesh);

}  // namespace nxdkit::dcp
