// The memory of one tensor-parallel rank: its share of every parameter, at a place in one flat
// array. Weights, gradients and optimizer state all have this shape, so sums over ranks, norms and
// updates are loops over one array.
//
//   embed_tokens | layer 0: input norm, [q k v], biases, head norms, o, its bias, post norm,
//   [gate up], biases, down, its bias | layer 1 ... | norm | lm_head (untied) or score, its bias
//
// q, k, v follow one another without a gap, so one product makes all three; gate and up too, and
// the biases of both.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::trainer {

// Elements of a flat array, from `begin` to before `end`.
struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};

struct Slot {
  uint32_t param = 0;  // index into the model's parameters
  Shape shape;         // this rank's share
  int64_t offset = 0;  // elements from the start of the flat array
  // Ranks that hold the same elements: tp for norms, the ranks of one key head for k and v.
  int copies = 1;
  // Every rank sees only a part of what the parameter does: the gradient is the sum over the
  // ranks that hold a copy.
  bool partial_gradient = false;
  // Where the share begins, and along which dimension it is cut (-1: whole).
  int cut_dim = -1;
  int64_t cut_begin = 0;
  int64_t size() const;
};

// Slots of one layer, as indices into ParamTable::slots; -1: the model has none.
struct LayerSlots {
  int input_norm = -1, q = -1, k = -1, v = -1, q_bias = -1, k_bias = -1, v_bias = -1;
  int q_norm = -1, k_norm = -1, o = -1, o_bias = -1, post_norm = -1, gate = -1, up = -1, down = -1;
  int gate_bias = -1, up_bias = -1, down_bias = -1;
};

struct ParamTable {
  int tp = 1;
  int rank = 0;
  std::vector<Slot> slots;
  std::vector<LayerSlots> layers;
  // lm_head -1: tied, or there is a score.
  int embedding = -1, final_norm = -1, lm_head = -1, score = -1, score_bias = -1;
  int64_t size = 0;  // elements of the flat array, gaps included

  // The sizes of this rank's share.
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_group = 0;  // which key heads this rank holds: ranks with the same number, the same
  int64_t intermediate = 0;
  int64_t vocab = 0;  // rows; the rank holds rows [rank * vocab, (rank + 1) * vocab)

  const Slot& at(int slot) const { return slots[static_cast<size_t>(slot)]; }
};

// kUnsupported with the numbers when heads, kv heads, intermediate size or vocabulary cannot be
// divided, or a parameter has no slot.
Result<ParamTable> MakeParamTable(const models::Model& model, int tp, int rank);

// The flat array cut where a backward pass is through with all that follows, into as many parts as
// there can be of `least` elements or more, in order: embedding and the first layers, ..., the last
// layers and what comes after them. Parts of one pass, one after the other from the last one on.
std::vector<FlatRange> CutByLayers(const ParamTable& table, int64_t least);

// The slots of all ranks as a layout over the model's parameters (lib/plan/layout.h): tensors rank
// by rank, slot by slot; file r is rank r.
Layout MemoryLayout(const models::Model& model, const std::vector<ParamTable>& ranks);

}  // namespace nxdkit::trainer
