#include "formats/artifact/optimizer/adam_options.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/torch/pickle_writer.h"

namespace nxdkit::ops {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr char kLearningRate[] = "lr";

// As torch keeps it: numbers are floating point, a list of them is a tuple.
PickleValue AsTorch(const PickleValue& value) {
  if (const int64_t* whole = value.integer()) return {static_cast<double>(*whole)};
  if (!value.list()) return value;
  PickleList items;
  for (const PickleValue& item : *value.list()) items.push_back(AsTorch(item));
  return PickleValue::MakeTuple(std::move(items));
}

const PickleValue* SaidIn(const PickleDict& group, std::string_view name) {
  for (const auto& [key, value] : group)
    if (key.string() && *key.string() == name) return &value;
  return nullptr;
}

}  // namespace

std::span<const AdamOption> AdamOptions() {
  static const std::array<AdamOption, 12> kOptions = {{
      {kLearningRate, {1e-3}},
      {"betas", PickleValue::MakeTuple({{0.9}, {0.999}})},
      {"eps", {1e-8}},
      {"weight_decay", {1e-2}},
      {"amsgrad", {false}},
      {"maximize", {false}},
      {"foreach", {}, false},
      {"capturable", {false}, false},
      {"differentiable", {false}, false},
      {"fused", {}, false},
      {"decoupled_weight_decay", {true}},  // AdamW, not Adam
      {kInitialRate, {1e-3}},
  }};  // constant
  return kOptions;
}

const AdamOption* FindAdamOption(std::string_view name) {
  const std::span<const AdamOption> options = AdamOptions();
  const auto found = std::ranges::find(options, name, &AdamOption::name);
  return found == options.end() ? nullptr : &*found;
}

PickleValue UnsaidIn(const PickleDict& group, const AdamOption& option) {
  const bool initial = std::string_view(option.name) == kInitialRate;
  const PickleValue* rate = initial ? SaidIn(group, kLearningRate) : nullptr;
  return rate ? AsTorch(*rate) : option.unsaid;
}

PickleValue OptionOf(const PickleDict& group, const AdamOption& option) {
  const PickleValue* said = SaidIn(group, option.name);
  return said ? AsTorch(*said) : UnsaidIn(group, option);
}

Result<bool> SameOption(const PickleValue& a, const PickleValue& b) {
  NXDKIT_ASSIGN(const std::string left, torch::WritePickle(AsTorch(a), {}));
  NXDKIT_ASSIGN(const std::string right, torch::WritePickle(AsTorch(b), {}));
  return left == right;
}

}  // namespace nxdkit::ops
