#include "formats/models/expand.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "lib/base/errors.h"

namespace nxdkit::models {
namespace {

constexpr size_t kMaxParams = 1'000'000;
constexpr int64_t kMaxSteps = 3'000'000;  // rows that a text may visit, for all configs alike
constexpr size_t kMaxCarried = 1000;

}  // namespace

TableRun::TableRun(const Table& table, const Json& config)
    : table_(table), values_(table.symbols, config) {
  for (const Table::Let& let : table_.lets)
    values_.Set(let.symbol, values_.Run(table_.expressions[let.expression]));
}

Error TableRun::WhyLet(int64_t symbol) const {
  const auto let =
      std::ranges::find(table_.lets, static_cast<uint32_t>(symbol), &Table::Let::symbol);
  return values_.Why(values_.At(let->symbol), table_.expressions[let->expression])
      .member(table_.symbols[let->symbol].origin);
}

Status TableRun::CheckFlags() const {
  for (const Table::Let& let : table_.lets)
    if (let.flag && At(let.symbol).kind == Value::Kind::kFault) return WhyLet(let.symbol);
  return OkStatus();
}

Result<bool> TableRun::Holds(const std::vector<uint32_t>& conditions) {
  for (const uint32_t condition : conditions) {
    NXDKIT_ASSIGN(const int64_t holds, values_.Number(table_.expressions[condition]));
    if (holds == 0) return false;
  }
  return true;
}

Result<std::string> TableRun::NameOf(const NamePattern& pattern) {
  std::string name;
  for (const NamePattern::Part& part : pattern.parts) {
    name += part.text;
    if (part.then < 0) continue;
    NXDKIT_ASSIGN(const int64_t number,
                  values_.Number(table_.expressions[static_cast<size_t>(part.then)]));
    name += std::to_string(number);
  }
  if (name.empty() || name.size() > kMaxNameBytes || name.find('/') != std::string::npos ||
      name.find("..") != std::string::npos)
    return Corrupt("the name cannot be that of a tensor").on(name);
  return name;
}

Result<Shape> TableRun::ShapeOf(const Row& row) {
  Shape shape;
  int64_t elements = 1;
  for (const uint32_t dim : row.dims) {
    NXDKIT_ASSIGN(const int64_t extent, values_.Number(table_.expressions[dim]));
    const int64_t symbol = table_.expressions[dim].OnlySymbol();
    if (symbol >= 0 && At(static_cast<uint32_t>(symbol)).flag)
      return Corrupt("found {}, expected an integer", extent == 0 ? "false" : "true")
          .member(table_.symbols[static_cast<size_t>(symbol)].origin);
    if (extent < 1 || extent > kMaxExtent)
      return Corrupt("\"{}\" is {}, expected an extent from 1 to {}",
                     table_.expressions[dim].source, extent, kMaxExtent);
    if (__builtin_mul_overflow(elements, extent, &elements))
      return Corrupt("more elements than 64 bits count");
    shape.push_back(extent);
  }
  return shape;
}

void TableRun::SetCounters(int64_t value) {
  for (const Step& step : table_.steps)
    if (step.kind == Step::Kind::kEach) values_.Set(step.counter, Value::Of(value));
}

Status TableRun::CheckPlainRows() {
  SetCounters(0);
  std::vector<bool> plain = {true};  // by open loop: whether it runs unconditionally
  for (const Step& step : table_.steps) {
    if (step.kind == Step::Kind::kEnd) {
      plain.pop_back();
      continue;
    }
    const bool each = step.kind == Step::Kind::kEach;
    const auto& conditions = each ? step.conditions : table_.rows[step.row].conditions;
    const bool here = plain.back() && conditions.empty();
    if (each) {
      plain.push_back(here);
      if (here) NXDKIT_TRY(values_.Number(table_.expressions[step.count]));
    } else if (here) {
      const Row& row = table_.rows[step.row];
      if (auto shape = ShapeOf(row); !shape.ok()) return Told(std::move(shape).error(), row);
    }
  }
  return OkStatus();
}

Result<std::vector<bool>> TableRun::SparseLayers(int64_t layers) {
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  const auto router = std::ranges::find(table_.rows, Role::kRouter, &Row::role);
  if (router == table_.rows.end() || router->conditions.empty()) return sparse;
  for (size_t layer = 0; layer < sparse.size(); ++layer) {
    SetCounters(static_cast<int64_t>(layer));
    NXDKIT_ASSIGN(const bool holds, Holds(router->conditions));
    sparse[layer] = holds;
  }
  return sparse;
}

Result<std::vector<Alias>> TableRun::Aliases() {
  std::vector<Alias> aliases;
  for (const AliasLine& line : table_.aliases) {
    if (line.condition >= 0) {
      NXDKIT_ASSIGN(const bool holds, Holds({static_cast<uint32_t>(line.condition)}));
      if (!holds) continue;
    }
    aliases.push_back({line.name, line.of});
  }
  return aliases;
}

bool TableRun::HasBias(Role role) {
  SetCounters(0);
  return std::ranges::any_of(table_.rows, [&](const Row& row) {
    const Result<bool> holds =
        row.role == role && row.dims.size() == 1 ? Holds(row.conditions) : Result<bool>(false);
    return holds.ok() && *holds;
  });
}

void TableRun::AddCuts(Model& model) {
  for (const Cut& line : table_.cuts) {
    ParamCut cut{line.axis, line.vocab, line.share, {}};
    for (const Cut::Segment& segment : line.segments) {
      const Value count = values_.Run(table_.expressions[segment.count]);
      const Value unit = values_.Run(table_.expressions[segment.unit]);
      // The row that uses it reports a fault.
      cut.segments.push_back(
          {count.is_number() ? count.number : -1, unit.is_number() ? unit.number : -1, segment.of});
    }
    model.cuts.push_back(std::move(cut));
  }
}

Status TableRun::CheckCut(const ParamCut& cut, const Param& param) const {
  if (cut.segments.empty()) return OkStatus();
  int64_t sum = 0;
  for (const Segment& segment : cut.segments) {
    int64_t rows = 0;
    if (segment.count < 1 || segment.unit < 1 ||
        __builtin_mul_overflow(segment.count, segment.unit, &rows) ||
        __builtin_add_overflow(sum, rows, &sum))
      return Corrupt("its cut has a segment of {} times {}", segment.count, segment.unit);
  }
  const int64_t extent = param.shape[static_cast<size_t>(cut.axis)];
  if (sum != extent)
    return Corrupt("the segments of its cut are {} of {} along axis {}", sum, extent, cut.axis);
  return OkStatus();
}

int TableRun::Counter(std::string_view name) const {
  for (const Loop& loop : loops_)
    if (table_.symbols[table_.steps[loop.step].counter].name == name)
      return static_cast<int>(loop.turn);
  return -1;
}

Status TableRun::AddRow(const Row& row, Model& model) {
  NXDKIT_ASSIGN(const bool holds, Holds(row.conditions));
  if (!holds) return OkStatus();
  NXDKIT_ASSIGN(std::string name, NameOf(row.name));
  if (row.carried) {
    if (model.carried.size() == kMaxCarried)
      return OverLimit("the family's text carries over {} names", kMaxCarried);
    model.carried.push_back(std::move(name));
    return OkStatus();
  }
  if (model.params.size() == kMaxParams)
    return OverLimit("the family's text gives over {} parameters", kMaxParams);
  const bool of_expert =
      row.role == Role::kExpertGate || row.role == Role::kExpertUp || row.role == Role::kExpertDown;
  if (of_expert && (Counter("e") < 0 || model.config.experts <= Counter("e")))
    return Corrupt("a row of an expert must be in a loop \"each e < E\", with let E").on(name);
  const ParamCut& cut = model.cuts[row.cut];
  Param param{std::move(name), row.role, Counter("l"), {}, Counter("e"), row.cut, cut.axis};
  NXDKIT_TRY(ShapeOf(row).on(param.name).To(param.shape));
  NXDKIT_TRY(CheckCut(cut, param).on(param.name));
  model.params.push_back(std::move(param));
  return OkStatus();
}

Status TableRun::Told(Status status, const Row& row) const {
  if (status.ok() || table_.origin.empty()) return status;
  return std::move(status).error().hint(
      fmt::format("the row is in line {} of {}", row.line, table_.origin));
}

Status TableRun::Expand(Model& model) {
  AddCuts(model);
  int64_t left = kMaxSteps;
  loops_.clear();
  for (size_t at = 0; at < table_.steps.size(); ++at) {
    if (--left < 0) return OverLimit("the family's text takes over {} steps", kMaxSteps);
    const Step& step = table_.steps[at];
    if (step.kind == Step::Kind::kRow) {
      NXDKIT_TRY(Told(AddRow(table_.rows[step.row], model), table_.rows[step.row]));
    } else if (step.kind == Step::Kind::kEach) {
      NXDKIT_ASSIGN(const bool holds, Holds(step.conditions));
      int64_t turns = 0;
      if (holds) NXDKIT_TRY(values_.Number(table_.expressions[step.count]).To(turns));
      if (turns <= 0) {
        at = step.other;
        continue;
      }
      loops_.push_back({at, 0, turns});
      values_.Set(step.counter, Value::Of(0));
    } else if (++loops_.back().turn < loops_.back().turns) {
      values_.Set(table_.steps[loops_.back().step].counter, Value::Of(loops_.back().turn));
      at = step.other;
    } else {
      loops_.pop_back();
    }
  }
  std::unordered_set<std::string_view> names;
  names.reserve(model.params.size());
  for (const Param& param : model.params)
    if (!names.insert(param.name).second)
      return Corrupt("the family's text gives this parameter twice").on(param.name);
  for (const Alias& alias : model.config.aliases) {
    if (!names.contains(alias.of))
      return Corrupt("the family's text has an alias of it, and no such parameter").on(alias.of);
    if (names.contains(alias.name))
      return Corrupt("the family's text has it as a parameter and as an alias").on(alias.name);
  }
  return OkStatus();
}

}  // namespace nxdkit::models
