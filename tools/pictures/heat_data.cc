#include "tools/pictures/heat_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/text.h"
#include "lib/page/page.h"
#include "tools/pictures/page_names.h"

namespace nxdkit::tool {
namespace {

using ops::DiffReport;
using ops::LayerMove;
using ops::ModuleMove;
using ops::ParamDiff;

// --- pieces of JSON, as text: a page may hold a million numbers

// Six significant digits, such as "1.23457e-5"; null for what JSON has no number for.
std::string NumberJson(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{:.6g}", value);
  const size_t zero = text.find("e-0");
  if (zero != text.npos) text.erase(zero + 2, 1);
  return text;
}

// A list that grows while there is room for it.
class List {
 public:
  explicit List(size_t& room) : room_(room) {}
  // False, and nothing changes, if the item does not fit.
  bool Add(std::string_view item) {
    const size_t bytes = page::DataBytes(item) + 1;
    if (bytes > room_) return false;
    room_ -= bytes;
    text_ += (text_.empty() ? "" : ",");
    text_ += item;
    ++size_;
    return true;
  }
  size_t size() const { return size_; }
  std::string Json() const { return "[" + text_ + "]"; }

 private:
  size_t& room_;
  std::string text_;
  size_t size_ = 0;
};

// Texts with their indexes.
class Names {
 public:
  explicit Names(size_t& room) : list_(room) {}
  // nullopt: there is no room for another.
  std::optional<size_t> IndexOf(const std::string& name) {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    return Add(name, NameJson(name));
  }
  std::optional<size_t> Add(const std::string& key, const std::string& json) {
    const auto [place, added] = index_.try_emplace(key, list_.size());
    if (!added || list_.Add(json)) return place->second;
    index_.erase(place);
    return std::nullopt;
  }
  std::string Json() const { return list_.Json(); }

 private:
  std::map<std::string, size_t> index_;
  List list_;
};

std::string MoveJson(const LayerMove& move) {
  return fmt::format("{},{},{},{},{}", move.parameters, move.elements, move.changed,
                     NumberJson(move.norm_a()), NumberJson(move.norm_update()));
}

double Mean(double sum, const ops::DiffTally& tally) {
  const uint64_t count = tally.elements - tally.nan - tally.infinite;
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

LayerMove MoveOf(const ParamDiff& param) {
  return {param.name, {}, 1, param.tally.elements, param.tally.changed, param.squares};
}

std::vector<const ParamDiff*> WorstFirst(const DiffReport& report) {
  std::vector<std::pair<double, const ParamDiff*>> keyed;
  for (const ParamDiff& param : report.params) keyed.emplace_back(Distance(param), &param);
  std::ranges::sort(keyed, [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return a.second->name < b.second->name;
  });
  std::vector<const ParamDiff*> params;
  for (const auto& [distance, param] : keyed) params.push_back(param);
  return params;
}

// --- the data of heat.js, which lists the fields

// Shares of the room: what one part of the page does not need, the next ones have.
struct Rooms {
  explicit Rooms(size_t all)
      : names(all / 3),
        kinds(all / 16),
        strips(all / 5),
        maps(all / 5),
        table(all - names - kinds - strips - maps) {}
  size_t names, kinds, strips, maps, table;
};

class Data {
 public:
  Data(const std::vector<std::string>& labels, const ops::VersionsReport& report, size_t room)
      : labels_(labels), report_(report), rooms_(room) {}

  std::string Json() {
    const std::string steps = Strips();
    rooms_.maps += std::exchange(rooms_.strips, 0);
    const std::string cells = Maps();
    rooms_.table += std::exchange(rooms_.maps, 0);
    const size_t spare = rooms_.names - rooms_.names / 8;
    rooms_.names -= spare;
    rooms_.table += spare;
    for (const ParamDiff& param : report_.whole.params) KindOf(param);
    rooms_.table += std::exchange(rooms_.kinds, 0);
    const std::string params = Params();
    return fmt::format(
        R"({{"steps":{},"cells":{},"params":{},"rows":{},"stacks":{},"row_stacks":[{}],)"
        R"("modules":{},"kinds":{}}})",
        steps, cells, params, rows_.Json(), stacks_.Json(), fmt::join(row_stacks_, ","),
        modules_.Json(), kinds_.Json());
  }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // The row of a layer, or of a module outside the layers.
  std::optional<size_t> Row(const std::string& name, const std::string& stack) {
    const std::optional<size_t> of_stack = stacks_.IndexOf(stack);
    const std::optional<size_t> row = of_stack ? rows_.IndexOf(name) : std::nullopt;
    if (row && *row == row_stacks_.size()) {
      row_stacks_.push_back(*of_stack);
      rooms_.names -= std::min(rooms_.names, std::to_string(*of_stack).size() + 1);
    }
    return row;
  }

  // The sums of the layers: of the whole way as many as fit in half of the room, of a step all or
  // none.
  std::string Strips() {
    List strips(rooms_.strips);
    size_t left = 0;
    size_t half = rooms_.strips / 2;
    strips.Add(Strip(0, report_.whole, half, left));
    for (size_t i = 0; i < report_.steps.size(); ++i) {
      size_t room = rooms_.strips, layers_left = 0;
      const std::string strip = Strip(i + 1, report_.steps[i], room, layers_left);
      if (layers_left == 0 && strips.Add(strip)) continue;
      left_out_.push_back(Counted(report_.steps.size() - i, "step"));
      break;
    }
    if (left > 0) left_out_.push_back(Counted(left, "layer"));
    shown_steps_ = strips.size() - 1;
    return strips.Json();
  }

  std::string Strip(size_t label, const DiffReport& report, size_t& room, size_t& left) {
    List layers(room);
    for (const LayerMove& layer : report.layers) {
      const std::optional<size_t> row = Row(layer.name, std::string(layer.stack()));
      if (!row || !layers.Add(fmt::format("[{},{}]", *row, MoveJson(layer)))) ++left;
    }
    return fmt::format(R"({{"label":{},"update":[{}],"layers":{}}})", NameJson(labels_[label]),
                       MoveJson(report.update), layers.Json());
  }

  // The cells in the same way; null for a step whose cells do not fit.
  std::string Maps() {
    List maps(rooms_.maps);
    size_t left = 0, steps_left = 0;
    size_t half = rooms_.maps / 2;
    maps.Add(Map(report_.whole, half, left));
    for (size_t i = 0; i < shown_steps_; ++i) {
      size_t room = rooms_.maps, cells_left = 0;
      const std::string map = Map(report_.steps[i], room, cells_left);
      if (cells_left == 0 && maps.Add(map)) continue;
      ++steps_left;
      maps.Add("null");
    }
    if (left > 0) left_out_.push_back(Counted(left, "cell") + " of the map");
    if (steps_left > 0)
      left_out_.push_back(steps_left == 1 ? "the map of 1 step"
                                          : fmt::format("the maps of {} steps", steps_left));
    return maps.Json();
  }

  std::string Map(const DiffReport& report, size_t& room, size_t& left) {
    List cells(room);
    for (const ModuleMove& move : report.modules) {
      const std::string cell = Cell(move);
      if (cell.empty() || !cells.Add(cell)) ++left;
    }
    return cells.Json();
  }

  // "" where there is no room for its names.
  std::string Cell(const ModuleMove& move) {
    const std::optional<size_t> row = Row(move.layer, "");
    const std::optional<size_t> module = modules_.IndexOf(move.module);
    if (!row || !module) return "";
    return fmt::format("[{},{},{},{},{}]", *row, *module, MoveJson(move.sum),
                       NumberJson(move.max_abs), move.infinite);
  }

  std::string Params() {
    List params(rooms_.table);
    const std::vector<const ParamDiff*> sorted = WorstFirst(report_.whole);
    for (const ParamDiff* param : sorted)
      if (const std::string row = Param(*param); row.empty() || !params.Add(row)) break;
    if (params.size() < sorted.size())
      left_out_.push_back(
          fmt::format("{} that moved least", Counted(sorted.size() - params.size(), "parameter")));
    return params.Json();
  }

  std::string Param(const ParamDiff& param) {
    const std::optional<size_t> kind = KindOf(param);
    if (!kind) return "";
    const ops::DiffTally& tally = param.tally;
    const LayerMove move = MoveOf(param);
    std::string json =
        fmt::format("[{},{},{},{},{},{},{},{},{}", NameOf(param.name), *kind, tally.changed,
                    NumberJson(move.norm_a()), NumberJson(move.norm_update()),
                    NumberJson(tally.max_abs), NumberJson(Mean(tally.sum_abs, tally)),
                    NumberJson(tally.max_rel), NumberJson(Mean(tally.sum_rel, tally)));
    if (tally.nan + tally.infinite > 0) json += fmt::format(",{},{}", tally.nan, tally.infinite);
    return json + "]";
  }

  // Shape, element types and number of elements, which many parameters share.
  std::optional<size_t> KindOf(const ParamDiff& param) {
    const std::string json =
        fmt::format(R"([[{}],"{}","{}",{}])", fmt::join(param.shape, ","), Name(param.a_dtype),
                    Name(param.b_dtype), param.tally.elements);
    return kinds_.Add(json, json);
  }

  // "row,module,numbers": the name is those of row and module, with the numbers for each "*"; 0: no
  // numbers. "-1,0,name" for a name that is not made of these, or has no room there.
  std::string NameOf(const std::string& name) {
    const ops::Home home = ops::HomeOf(name);
    std::string made = home.layer + (home.module.empty() ? "" : "." + home.module);
    size_t at = home.layer.size();
    for (const std::string& number : home.numbers) {
      at = made.find('*', at);
      made.replace(at, 1, number);
    }
    const bool fits = made == name && ShownName(name) == EscapeControl(name);
    const std::optional<size_t> row = fits ? Row(home.layer, "") : std::nullopt;
    const std::optional<size_t> module = row ? modules_.IndexOf(home.module) : std::nullopt;
    if (!module) return "-1,0," + NameJson(name);
    const std::string numbers = fmt::format("{}", fmt::join(home.numbers, "."));
    return fmt::format("{},{},{}", *row, *module, numbers.empty() ? "0" : NameJson(numbers));
  }

  const std::vector<std::string>& labels_;
  const ops::VersionsReport& report_;
  Rooms rooms_;
  size_t shown_steps_ = 0;
  Names rows_{rooms_.names};
  Names stacks_{rooms_.names};
  std::vector<size_t> row_stacks_;  // of each row
  Names modules_{rooms_.names};
  Names kinds_{rooms_.kinds};
  std::vector<std::string> left_out_;
};

}  // namespace

double Distance(const ParamDiff& param) {
  if (param.tally.nan + param.tally.infinite > 0) return INFINITY;
  const std::optional<double> relative = MoveOf(param).relative();
  return !relative || std::isnan(*relative) ? std::numeric_limits<double>::max() : *relative;
}

HeatData MakeHeatData(const std::vector<std::string>& labels, const ops::VersionsReport& report,
                      size_t room) {
  Data data(labels, report, room);
  std::string json = data.Json();
  return {std::move(json), data.left_out()};
}

}  // namespace nxdkit::tool
