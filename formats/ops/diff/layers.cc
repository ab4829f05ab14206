#include "formats/ops/diff/layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

// Where a parameter belongs: the stack "model.layers" and the number, or the module.
struct Stack {
  std::string_view name;
  std::optional<int64_t> layer;
  size_t end = 0;  // of the layer, or of the module, in the parameter's name
};

bool IsNumber(std::string_view part) { return !part.empty() && std::ranges::all_of(part, IsDigit); }

Stack StackOf(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const std::optional<int64_t> layer = IsNumber(part) ? ParseNumber<int64_t>(part) : std::nullopt;
    if (layer && at > 0 && end < name.size()) return {name.substr(0, at - 1), layer, end};
    at = end + 1;
  }
  const size_t end = std::min(name.rfind('.'), name.size());
  return {name.substr(0, end), std::nullopt, end};
}

void SortByPosition(std::vector<MovedParam>& params) {
  std::ranges::sort(params, {}, [](const MovedParam& param) {
    return std::tuple(param.position, std::string_view(param.name));
  });
}

std::string LayerName(const Stack& stack) {
  std::string name(stack.name);
  return stack.layer ? name + "." + std::to_string(*stack.layer) : name;
}

LayerMove MoveOf(const MovedParam& param) {
  return {{}, {}, 1, param.elements, param.changed, param.squares};
}

}  // namespace

Home HomeOf(std::string_view name) {
  const Stack stack = StackOf(name);
  Home home{LayerName(stack), {}, {}};
  if (stack.end >= name.size()) return home;
  const std::string_view rest = name.substr(stack.end + 1);
  const bool folds = rest.find('*') == rest.npos;  // else "*" would have two meanings
  std::string_view dot;
  for (const std::string_view part : Split(rest, '.')) {
    const bool number = folds && IsNumber(part);
    home.module.append(dot).append(number ? "*" : part);
    if (number) home.numbers.emplace_back(part);
    dot = ".";
  }
  return home;
}

std::string_view LayerMove::stack() const {
  return layer ? std::string_view(name).substr(0, name.rfind('.')) : "";
}

double LayerMove::norm_a() const { return std::sqrt(squares.a); }
double LayerMove::norm_update() const { return std::sqrt(squares.update); }

std::optional<double> LayerMove::relative() const {
  if (squares.update == 0) return 0;
  if (squares.a == 0) return std::nullopt;
  return norm_update() / norm_a();
}

void LayerMove::Add(const LayerMove& next) {
  parameters += next.parameters;
  elements += next.elements;
  changed += next.changed;
  squares.Add(next.squares);
}

std::vector<LayerMove> MovesOf(std::vector<MovedParam> params) {
  SortByPosition(params);
  std::map<std::string_view, uint64_t> first_of;  // the position where a stack begins
  using Key = std::tuple<uint64_t, int64_t>;      // and the number in it
  std::map<Key, LayerMove> moves;
  for (const MovedParam& param : params) {
    const Stack stack = StackOf(param.name);
    const uint64_t first = first_of.try_emplace(stack.name, param.position).first->second;
    LayerMove& move = moves[{first, stack.layer.value_or(-1)}];
    if (move.parameters == 0) {
      move.name = LayerName(stack);
      move.layer = stack.layer;
    }
    move.Add(MoveOf(param));
  }
  std::vector<LayerMove> out;
  for (auto& [key, move] : moves) out.push_back(std::move(move));
  return out;
}

std::vector<ModuleMove> ModulesOf(std::vector<MovedParam> params) {
  SortByPosition(params);
  std::map<std::pair<std::string, std::string>, size_t> index;
  std::vector<ModuleMove> modules;
  for (const MovedParam& param : params) {
    Home home = HomeOf(param.name);
    const auto [found, added] = index.try_emplace({home.layer, home.module}, modules.size());
    if (added) modules.push_back({std::move(home.layer), std::move(home.module), 0, 0, {}});
    ModuleMove& module = modules[found->second];
    module.infinite += param.infinite;
    module.max_abs = std::max(module.max_abs, param.max_abs);
    module.sum.Add(MoveOf(param));
  }
  return modules;
}

}  // namespace nxdkit::ops
