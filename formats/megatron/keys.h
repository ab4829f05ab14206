// PRIVATE to formats: the keys of a distributed checkpoint of Megatron-Core: what they are of, with
// the numbers that they have in them taken out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::megatron {

struct Key {
  enum class Kind : uint8_t {
    kWeight,  // of the model
    kState,   // what the optimizer keeps of one, in the model's shape or in fragments of it
    kBucket,  // a flat buffer of parameters that have no names
    kOther,
  } kind = Kind::kOther;
  std::string state;  // kState, kBucket: "exp_avg"; dcp::kMasterWeights of master weights
  std::string name;   // of a module in the layer: "mlp.linear_fc1.weight"; whole outside of layers
  bool in_layer = false;
  std::optional<int64_t> layer;   // nullopt: of all layers, along the first axis
  std::optional<int64_t> expert;  // nullopt: of all experts, along the next
  std::optional<int> half;        // of gate over up: 0, 1
  std::optional<int64_t> mtp;     // of this layer of multi-token prediction, not of `layer`
  int64_t chain = 0;              // of several optimizers: 1 is that of the experts
  // kBucket
  int64_t group = 0;   // of the model parallel ranks
  int64_t buffer = 0;  // of one dtype
  int64_t bucket = 0;
};
Key ParseKey(std::string_view key);

// Another name of a norm, which specifications of a layer give it; "" where there is none.
std::string_view OtherName(std::string_view name);

}  // namespace nxdkit::megatron
