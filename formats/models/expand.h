// PRIVATE to formats/models: evaluates a family's table with one config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/models/table.h"

namespace nxdkit::models {

struct ConfigText {
  explicit ConfigText(Json all) : json(std::move(all)) {}
  Json json;
};

// Both must outlive it. Faults name the key of the config as their member, or the parameter.
class TableRun {
 public:
  TableRun(const Table& table, const Json& config);  // Evaluates the lets.

  const Value& At(uint32_t symbol) const { return values_.At(symbol); }
  Result<int64_t> Number(uint32_t expression) {
    return values_.Number(table_.expressions[expression]);
  }
  Error WhyLet(int64_t symbol) const;
  Status CheckFlags() const;  // Flags that the config has must be true or false.

  // Checks the unconditional rows, outside loops and in the first turn of each: the keys that they
  // use must exist.
  Status CheckPlainRows();

  // By layer, whether it has the experts of a model that has some.
  Result<std::vector<bool>> SparseLayers(int64_t layers);
  Result<std::vector<Alias>> Aliases();
  bool HasBias(Role role);  // Whether the parameters of the role have a bias.

  // Adds the parameters, their cuts and the carried tensors.
  Status Expand(Model& model);

 private:
  struct Loop {
    size_t step;
    int64_t turn;
    int64_t turns;
  };

  Result<bool> Holds(const std::vector<uint32_t>& conditions);
  Result<std::string> NameOf(const NamePattern& pattern);
  Result<Shape> ShapeOf(const Row& row);
  Status AddRow(const Row& row, Model& model);
  // Adds the row's line, if the text is the user's.
  Status Told(Status status, const Row& row) const;
  void AddCuts(Model& model);
  Status CheckCut(const ParamCut& cut, const Param& param) const;
  int Counter(std::string_view name) const;  // its value in the open loops; -1 if it is not open
  void SetCounters(int64_t value);

  const Table& table_;
  Evaluator values_;
  std::vector<Loop> loops_;
};

}  // namespace nxdkit::models
