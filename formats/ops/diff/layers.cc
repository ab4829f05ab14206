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
struct Home {
  std::string_view stack;
  std::optional<int64_t> layer;
};

Home HomeOf(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool number = !part.empty() && std::ranges::all_of(part, IsDigit);
    const std::optional<int64_t> layer = number ? ParseNumber<int64_t>(part) : std::nullopt;
    if (layer && at > 0 && end < name.size()) return {name.substr(0, at - 1), layer};
    at = end + 1;
  }
  return {name.substr(0, name.rfind('.')), std::nullopt};
}

}  // namespace

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
  std::ranges::sort(params, {}, [](const MovedParam& param) {
    return std::tuple(param.position, std::string_view(param.name));
  });
  std::map<std::string_view, uint64_t> first_of;  // the position where a stack begins
  using Key = std::tuple<uint64_t, int64_t>;      // and the number in it
  std::map<Key, LayerMove> moves;
  for (const MovedParam& param : params) {
    const Home home = HomeOf(param.name);
    const uint64_t first = first_of.try_emplace(home.stack, param.position).first->second;
    LayerMove& move = moves[{first, home.layer.value_or(-1)}];
    if (move.parameters == 0) {
      move.name = home.stack;
      move.layer = home.layer;
      if (home.layer) move.name += "." + std::to_string(*home.layer);
    }
    move.Add({{}, {}, 1, param.elements, param.changed, param.squares});
  }
  std::vector<LayerMove> out;
  for (auto& [key, move] : moves) out.push_back(std::move(move));
  return out;
}

}  // namespace nxdkit::ops
