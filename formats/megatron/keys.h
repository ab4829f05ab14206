// PRIVATE to formats: the keys of a Megatron-Core distributed checkpoint: what they stand for, with
// the numbers in them taken out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::megatron {

struct Key {
  enum class Kind : uint8_t {
    kWeight,  // of the model
    kState,   // optimizer state of a weight, in the model's shape or in fragments of it
    kBucket,  // a flat buffer of unnamed parameters
    kOther,
  } kind = Kind::kOther;
  std::string state;  // kState, kBucket: "exp_avg"; dcp::kMasterWeights for master weights
  std::string name;   // in the layer: "mlp.linear_fc1.weight"; outside layers in full
  bool in_layer = false;
  std::optional<int64_t> layer;   // nullopt: all layers, along the first axis
  std::optional<int64_t> expert;  // nullopt: all experts, along the next
  std::optional<int> half;        // the half of gate over up: 0, 1
  std::optional<int64_t> mtp;     // a multi-token prediction layer, instead of `layer`
  int64_t chain = 0;              // with several optimizers: 1 is that of the experts
  // kBucket
  int64_t group = 0;   // among the model parallel ranks
  int64_t buffer = 0;  // one for each dtype
  int64_t bucket = 0;
};
Key ParseKey(std::string_view key);

// Another name of a norm, from other layer specifications; "" if there is none.
std::string_view OtherName(std::string_view name);

}  // namespace nxdkit::megatron
