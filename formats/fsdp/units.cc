#include "formats/fsdp/units.h"

#include <algorithm>
#include <map>
#include <string>

#include "lib/base/text.h"

namespace nxdkit::fsdp {
namespace {

void Append(Unit& unit, size_t tensor, const std::vector<ModelTensor>& tensors) {
  unit.tensors.push_back(tensor);
  unit.elements += *ElementCount(tensors[tensor].shape);
}

}  // namespace

std::pair<std::string, int64_t> LayerNumber(const std::string& name) {
  size_t from = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', from)) {
    const auto number = ParseNumber<int64_t>(std::string_view(name).substr(from, dot - from));
    if (number && *number >= 0) return {name.substr(0, from), *number};
    from = dot + 1;
  }
  return {"", -1};
}

std::vector<Unit> LayerUnits(const std::vector<ModelTensor>& tensors,
                             const std::vector<size_t>& candidates) {
  std::vector<Unit> units(1);
  std::map<std::pair<std::string, int64_t>, size_t> numbers = {{{"", -1}, 0}};
  for (const size_t i : candidates) {
    const auto [number, added] = numbers.emplace(LayerNumber(tensors[i].name), units.size());
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
