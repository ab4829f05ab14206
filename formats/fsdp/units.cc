#include "formats/fsdp/units.h"

#include <algorithm>
#include <map>
#include <string>

#include "lib/base/text.h"

namespace nxdkit::fsdp {
namespace {

// "model.layers.3." of "model.layers.3.mlp.up_proj.weight"; "" of what is in no layer.
std::string LayerOf(const std::string& name) {
  size_t from = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', from)) {
    const std::string_view part = std::string_view(name).substr(from, dot - from);
    from = dot + 1;
    if (!part.empty() && std::ranges::all_of(part, IsDigit)) return name.substr(0, from);
  }
  return "";
}

void Append(Unit& unit, size_t tensor, const std::vector<ModelTensor>& tensors) {
  unit.tensors.push_back(tensor);
  unit.elements += *ElementCount(tensors[tensor].shape);
}

}  // namespace

std::vector<Unit> LayerUnits(const std::vector<ModelTensor>& tensors,
                             const std::vector<size_t>& candidates) {
  std::vector<Unit> units(1);
  std::map<std::string, size_t> numbers = {{"", 0}};
  for (const size_t i : candidates) {
    const auto [number, added] = numbers.emplace(LayerOf(tensors[i].name), units.size());
    if (added) units.emplace_back();
    Append(units[number->second], i, tensors);
  }
  if (units.front().tensors.empty()) units.erase(units.begin());
  return units;
}

std::vector<Unit> SingleUnits(const std::vector<ModelTensor>& tensors,
                              const std::vector<size_t>& candidates) {
  std::vector<Unit> units;
  for (const size_t i : candidates) Append(units.emplace_back(), i, tensors);
  return units;
}

}  // namespace nxdkit::fsdp
