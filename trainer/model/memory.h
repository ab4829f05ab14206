// A model's weights in the memory of its ranks as one more layout: filled from any artifact, and
// the source of any other, by the same slice plans as between files.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

// For RunOptions::max_memory: the commands' cap limits buffers for models on disk; these weights
// are already in memory.
inline constexpr uint64_t kNoMemoryCap = uint64_t{1} << 46;

// The flat array of one rank, whole or cut into parts (over data-parallel ranks); not owned.
struct RankMemory {
  struct Part {
    FlatRange range;
    std::byte* data = nullptr;  // range.size() elements; nullptr: they are in another process
    // In such a part: reads from `offset` bytes after its beginning. Thread-safe.
    std::function<Status(uint64_t offset, std::span<std::byte> to)> read = nullptr;
  };
  RankMemory(const ParamTable* table_in, std::byte* whole, Dtype dtype_in)
      : RankMemory(table_in, dtype_in, {{{0, table_in->size}, whole}}) {}
  // `parts` are in order and do not overlap. Elements outside them are not filled, and cannot be
  // read.
  RankMemory(const ParamTable* table_in, Dtype dtype_in, std::vector<Part> parts_in)
      : table(table_in), dtype(dtype_in), parts(std::move(parts_in)) {}

  const ParamTable* table;
  Dtype dtype;
  std::vector<Part> parts;
};

// Fills the ranks' arrays from an opened artifact of the same model, converted to their dtypes; a
// rank reads only its own share. kCorrupt naming the first parameter that the artifact lacks or has
// in another shape.
Status LoadWeights(const artifact::BoundArtifact& source, const models::Model& model,
                   const std::vector<RankMemory>& ranks, const artifact::RunOptions& run);

// The same for the optimizer's `entry` of every parameter ("exp_avg"), or with nxd::kMasterWeights
// for its master weights. The arrays' dtype must be that of the files: state is not rounded.
// kCorrupt when a parameter has no such entry.
Status LoadEntry(const artifact::BoundArtifact& source, const models::Model& model,
                 const std::string& entry, const std::vector<RankMemory>& ranks,
                 const artifact::RunOptions& run);

// Numbers in memory as the storage of a tensor.
std::shared_ptr<const Storage> StorageOf(std::vector<float> values);

// 0, 1, 2, ...: maps each parameter of the model to itself.
std::vector<uint32_t> OwnNumbers(const models::Model& model);

// Adds the arrays of all ranks to `to`, as tensors that can be read while the arrays live
// unchanged. params[i] is the logical parameter in `to` to which the model's parameter i is bound.
void BindMemory(const models::Model& model, const std::vector<uint32_t>& params,
                const std::vector<RankMemory>& ranks, BoundLayout& to);

}  // namespace nxdkit::trainer
