// The memory of one tensor-parallel rank: its share of every parameter, in one flat array. Weights,
// gradients and optimizer state all have this shape, so that sums over ranks, norms and updates are
// loops over one array.
//
//   embed_tokens | layer 0: input norm, [q k v], biases, head norms, o, its bias, post norm,
//   [gate up], biases, down, its bias | layer 1 ... | norm | lm_head (untied) or score, its bias
//
// q, k, v are adjacent without a gap, so that one product computes all three; so are gate and up,
// and the biases of both.
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
  // The number of ranks with the same elements: tp for norms, the ranks of one key head for k and
  // v.
  int copies = 1;
  // Each rank sees only part of the parameter's effect: the gradient is the sum over the ranks that
  // hold a copy.
  bool partial_gradient = false;
  // The beginning of the share, and the dimension along which it is cut (-1: whole).
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

  // Sizes of this rank's share.
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_group = 0;  // the key heads of this rank: equal numbers, equal heads
  int64_t intermediate = 0;
  int64_t vocab = 0;  // rows; the rank holds rows [rank * vocab, (rank + 1) * vocab)

  const Slot& at(int slot) const { return slots[static_cast<size_t>(slot)]; }
};

// kUnsupported with the numbers when heads, kv heads, intermediate size or vocabulary do not
// divide, or a parameter has no slot.
Result<ParamTable> MakeParamTable(const models::Model& model, int tp, int rank);

// Cuts the flat array at places where a backward pass has completed all that follows, into as many
// parts of at least `least` elements as possible, in order: embedding and the first layers, ...,
// the last layers and everything after them. A pass completes the parts in order from the last one.
std::vector<FlatRange> CutByLayers(const ParamTable& table, int64_t least);

// The slots of all ranks as a layout over the model's parameters (lib/plan/layout.h): tensors rank
// by rank, slot by slot; file r is rank r.
Layout MemoryLayout(const models::Model& model, const std::vector<ParamTable>& ranks);

}  // namespace nxdkit::trainer
