#include "formats/training/adam_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/torch/pickle_writer.h"
#include "lib/base/text.h"

namespace nxdkit::training {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr char kLearningRate[] = "lr";

// The value as torch stores it: numbers are floating point, a list of them is a tuple.
PickleValue AsTorch(const PickleValue& value) {
  if (const int64_t* whole = value.integer()) return {static_cast<double>(*whole)};
  if (!value.list()) return value;
  PickleList items;
  for (const PickleValue& item : *value.list()) items.push_back(AsTorch(item));
  return PickleValue::MakeTuple(std::move(items));
}

}  // namespace

const PickleValue* SaidIn(const PickleDict& group, std::string_view name) {
  for (const auto& [key, value] : group)
    if (key.string() && *key.string() == name) return &value;
  return nullptr;
}

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

std::vector<std::string> UnsaidOptions(const PickleDict& group) {
  std::vector<std::string> unsaid;
  for (const char* name : kPlainOptions)
    if (!SaidIn(group, name)) unsaid.push_back(name);
  return unsaid;
}

std::string OptionText(const PickleValue& value) {
  if (const int64_t* whole = value.integer()) return std::to_string(*whole);
  if (const double* number = std::get_if<double>(&value.value)) return fmt::format("{}", *number);
  if (const bool* flag = std::get_if<bool>(&value.value)) return *flag ? "True" : "False";
  if (const std::string* text = value.string()) return "\"" + EscapeControl(*text) + "\"";
  if (std::holds_alternative<PickleValue::None>(value.value)) return "None";
  if (const auto* big = std::get_if<PickleValue::BigInt>(&value.value)) return big->decimal;
  if (!value.list()) return "something else";
  std::vector<std::string> items;
  for (const PickleValue& item : *value.list())
    items.push_back(item.list() ? "a list" : OptionText(item));  // options are not nested deeper
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string OptionDifference(const PickleDict& left, const std::string& a, const PickleDict& right,
                             const std::string& b) {
  const auto text = [](const PickleValue* value) {
    return value ? OptionText(*value) : std::string("not said");
  };
  const auto is_same = [](const PickleValue* x, const PickleValue* y) {
    if (!x || !y) return x == y;
    const Result<bool> same = SameOption(*x, *y);
    return same.ok() && *same;
  };
  for (const PickleDict* group : {&left, &right})
    for (const auto& [key, value] : *group) {
      if (!key.string() || *key.string() == "params") continue;
      const PickleValue* x = SaidIn(left, *key.string());
      const PickleValue* y = SaidIn(right, *key.string());
      if (!is_same(x, y))
        return fmt::format("{} is {} in {}, and {} in {}", EscapeControl(*key.string()), text(x), a,
                           text(y), b);
    }
  return "";
}

Result<bool> SameOption(const PickleValue& a, const PickleValue& b) {
  NXDKIT_ASSIGN(const std::string left, torch::WritePickle(AsTorch(a), {}));
  NXDKIT_ASSIGN(const std::string right, torch::WritePickle(AsTorch(b), {}));
  return left == right;
}

}  // namespace nxdkit::training
