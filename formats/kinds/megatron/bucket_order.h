// PRIVATE to formats/kinds/megatron: the orders in which the modules of Megatron's layers register
// their parameters, and the resulting list for a pipeline stage. No file records the order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "formats/kinds/megatron/local_tensors.h"

namespace nxdkit::kinds {

// The order of the local specification, and those that Transformer Engine's modules may have.
struct RegistrationOrder {
  enum class Norm : uint8_t { kFirst, kBeforeQkv, kAfterQkv } norm = Norm::kFirst;
  bool by_projection = false;  // all linear_fc1 of the experts come before all linear_fc2
};
std::span<const RegistrationOrder> RegistrationOrders();

// Layers [first, end) of a pipeline stage.
struct StageLayers {
  int64_t first = 0;
  int64_t end = 0;
  bool is_first = false;
  bool is_last = false;
};

// The tensors of one rank, in the order of registration. They live as long as the lists that
// returned them.
using ParameterList = std::vector<const LocalTensor*>;

class StageLists {
 public:
  // `experts_apart`: the experts have buffers of their own. `local` must outlive it.
  StageLists(const LocalTensors& local, const RegistrationOrder& order, bool experts_apart)
      : local_(local), order_(order), experts_apart_(experts_apart) {}

  ParameterList Stage(const StageLayers& stage, int64_t rank);
  void AddLayer(ParameterList& list, int64_t layer, int64_t rank) {
    AddLayerOf(list, layer, false, rank);
  }
  // Only experts [first, end) of the stage's layers.
  ParameterList Experts(const StageLayers& stage, int64_t first, int64_t end, int64_t rank);

 private:
  void Add(ParameterList& list, const LocalTensors::Place& place, int64_t rank);
  void AddExperts(ParameterList& list, int64_t layer, bool mtp, int64_t first, int64_t end,
                  int64_t rank);
  void AddLayerOf(ParameterList& list, int64_t layer, bool mtp, int64_t rank);
  void AddEnd(ParameterList& list, bool is_first, int64_t rank);
  std::vector<std::string_view> Attention(bool latent) const;

  const LocalTensors& local_;
  RegistrationOrder order_;
  bool experts_apart_;
  // By name, layer, expert, whether it belongs to multi-token prediction, and rank.
  std::map<std::tuple<std::string, int64_t, int64_t, bool, int64_t>, LocalTensor> tensors_;
};

}  // namespace nxdkit::kinds
