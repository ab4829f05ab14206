// PRIVATE: the optim_ files of a rank set, in the four forms that trainers write (FORMAT.md).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/dcp/shard_entries.h"
#include "formats/dtensor/placed.h"
#include "formats/fsdp/open.h"
#include "formats/fsdp/units.h"
#include "formats/torch/archive.h"

namespace nxdkit::fsdp {

inline constexpr std::string_view kStateKeys = "optimizer.state.";
inline constexpr std::string_view kGroupKeys = "optimizer.param_groups.";

// One rank's state of one parameter or unit, under one name.
struct Kept {
  std::string name;  // "exp_avg"
  StoredTensor stored;
  std::optional<dtensor::Place> place;
  std::optional<torch::PickleValue> value;  // instead of a tensor
};

struct RankState {
  uint32_t file = 0;
  int rank = 0;
  std::map<std::string, std::vector<Kept>> by_name;
  std::map<int64_t, std::vector<Kept>> by_number;
};

class OptimizerReader {
 public:
  // `proves_padding`: the padding of FSDP1's slices is read, and must be zero.
  OptimizerReader(dcp::ShardEntries& entries, Facts& facts, bool proves_padding)
      : entries_(entries), facts_(facts), proves_padding_(proves_padding) {}

  // Adds the file of one rank; ranks come in order.
  Status Add(const torch::Archive& archive, uint32_t file, int rank);
  // Determines the form and the meaning of each number, and adds everything to the entries.
  Status Finish();

 private:
  using MakeUnits = std::vector<Unit> (*)(const std::vector<ModelTensor>&,
                                          const std::vector<size_t>&);
  using Fits = std::function<bool(int64_t number, const Unit&)>;

  Status AddState(const torch::Archive& archive, const torch::PickleDict& state, RankState& to);
  Status AddGroups(const torch::PickleValue& groups, int rank);
  Status AddNamed();
  Status AddNumbered();
  Status AddFlat();
  // Adds state that is not cut as a slice: a tensor as stored, a step, a number.
  Status AddKept(const RankState& rank, const std::string& name, const Kept& kept);
  Status AddSliceOf(const RankState& rank, int64_t number, const Kept& kept);
  Status AddOptions();

  // Whether the state by numbers consists of slices: one dimension, where parameters have more.
  bool HasSlices() const;
  void MeasureSlices();
  // The unit of each number, in the order of `units`; kUnsupported unless the answer is unique.
  Result<std::map<int64_t, Unit>> UnitsOfNumbers(const std::vector<Unit>& units,
                                                 const Fits& fits) const;
  std::string FirstMisfit(const std::vector<int64_t>& numbers, const std::vector<Unit>& units,
                          const Fits& fits) const;
  std::vector<size_t> Candidates() const;  // in facts_.tensors, possibly trained
  Result<bool> HasTiedHead(const std::vector<size_t>& candidates) const;
  Status CheckOrder(const std::vector<size_t>& candidates) const;
  // UnitsOfNumbers for the units that `make` makes of the candidates; a tied head is left out.
  Result<std::map<int64_t, Unit>> TensorsOfNumbers(MakeUnits make, const Fits& fits) const;
  Result<const Unit*> UnitOf(int64_t number) const;
  // ShardRanks: over how many ranks a parameter is cut; the others have copies. ShardOf: which part
  // a rank has.
  bool AnyPlaced() const;
  int ShardRanks() const;
  int ShardOf(int rank) const;

  dcp::ShardEntries& entries_;
  Facts& facts_;
  bool proves_padding_;
  std::vector<RankState> ranks_;
  std::shared_ptr<const dtensor::DeviceMesh> checked_;  // the last valid one
  torch::PickleValue groups_;
  std::string groups_text_;
  std::map<int64_t, Unit> units_;                      // by number
  std::map<int64_t, std::map<int, int64_t>> lengths_;  // of slices, by number and ShardOf
};

}  // namespace nxdkit::fsdp
