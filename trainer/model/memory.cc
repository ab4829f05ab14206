#include "trainer/model/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "formats/artifact/proof.h"
#include "lib/base/errors.h"
#include "lib/plan/executor.h"
#include "lib/plan/plan.h"

namespace nxdkit::trainer {
namespace {

// Calls take(at, part, from, count) for each part of `memory` that overlaps the bytes from `offset`
// on, in order: `at` counts from `offset`, `from` within the part. Returns the number of these
// bytes.
template <typename Take>
Result<uint64_t> ForParts(const RankMemory& memory, uint64_t offset, uint64_t count,
                          const Take& take) {
  const auto element = static_cast<uint64_t>(ElementBytes(memory.dtype));
  uint64_t met = 0;
  for (const RankMemory::Part& part : memory.parts) {
    const uint64_t begin = static_cast<uint64_t>(part.range.begin) * element;
    const uint64_t end = static_cast<uint64_t>(part.range.end) * element;
    const uint64_t from = std::max(begin, offset), to = std::min(end, offset + count);
    if (from >= to) continue;
    NXDKIT_TRY(take(from - offset, part, from - begin, to - from));
    met += to - from;
  }
  return met;
}

class MemoryStorage : public Storage {
 public:
  explicit MemoryStorage(RankMemory memory)
      : memory_(std::move(memory)), path_(fmt::format("memory of rank {}", memory_.table->rank)) {}
  uint64_t bytes() const override {
    return static_cast<uint64_t>(memory_.table->size * ElementBytes(memory_.dtype));
  }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    const auto copy = [&](uint64_t at, const RankMemory::Part& part, uint64_t from,
                          uint64_t count) -> Status {
      if (part.data == nullptr) return part.read(from, to.subspan(at, count));
      std::memcpy(to.data() + at, part.data + from, count);
      return OkStatus();
    };
    NXDKIT_ASSIGN(const uint64_t read, ForParts(memory_, offset, to.size(), copy));
    if (read == to.size()) return OkStatus();
    return Error(Errc::kInternal, "read of memory that does not exist").in(path_).at(offset);
  }

 private:
  const RankMemory memory_;
  const std::string path_;
};

class NumbersStorage : public Storage {
 public:
  explicit NumbersStorage(std::vector<float> numbers) : numbers_(std::move(numbers)) {}
  uint64_t bytes() const override { return numbers_.size() * sizeof(float); }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes() || to.size() > bytes() - offset)
      return Error(Errc::kInternal, "read past the end of memory").in(path_).at(offset);
    std::ranges::copy(std::as_bytes(std::span(numbers_)).subspan(offset, to.size()), to.begin());
    return OkStatus();
  }

 private:
  const std::vector<float> numbers_;
  const std::string path_ = "memory";
};

class MemorySink : public Sink {
 public:
  explicit MemorySink(const std::vector<RankMemory>& ranks) {
    for (const RankMemory& memory : ranks)
      for (const Slot& slot : memory.table->slots)
        places_.push_back(
            {&memory, static_cast<uint64_t>(slot.offset * ElementBytes(memory.dtype))});
  }
  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    const Place& place = places_[tensor];
    const auto copy = [&](uint64_t at, const RankMemory::Part& part, uint64_t from,
                          uint64_t count) {
      if (part.data != nullptr) std::memcpy(part.data + from, bytes.data() + at, count);
      return OkStatus();
    };
    NXDKIT_TRY(ForParts(*place.memory, place.offset + offset, bytes.size(), copy));
    return OkStatus();
  }

 private:
  struct Place {
    const RankMemory* memory;
    uint64_t offset;
  };
  std::vector<Place> places_;
};

// The arrays as a layout over another artifact's logical parameters: params[i] is the model's
// parameter i.
Layout LayoutOf(const models::Model& model, const std::vector<uint32_t>& params,
                const std::vector<RankMemory>& ranks) {
  std::vector<ParamTable> tables;
  for (const RankMemory& memory : ranks) tables.push_back(*memory.table);
  Layout layout = MemoryLayout(model, tables);
  for (TensorLayout& tensor : layout.tensors)
    for (Piece& piece : tensor.pieces) piece.param = params[piece.param];
  return layout;
}

Status Fill(const artifact::BoundArtifact& source, const models::Model& model,
            const std::vector<uint32_t>& params, const std::vector<RankMemory>& ranks,
            const artifact::RunOptions& run) {
  const Layout layout = LayoutOf(model, params, ranks);
  std::vector<OutputTensor> outputs;
  for (const TensorLayout& tensor : layout.tensors)
    outputs.push_back({tensor.name, ranks[tensor.file].dtype, tensor.shape});
  NXDKIT_ASSIGN(const Plan plan, BuildPlan(source.params, source.bound, layout));
  artifact::RunOptions uncapped = run;
  uncapped.max_memory = kNoMemoryCap;
  NXDKIT_ASSIGN(const ExecuteOptions options, artifact::MakeExecuteOptions(uncapped));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan, source.bound, layout, outputs, options));
  MemorySink sink(ranks);
  NXDKIT_TRY(executor.Run(sink));
  const Result<artifact::Proof> proof = artifact::Prove(source, artifact::Proving::kMost, uncapped);
  return proof.ok() ? OkStatus() : Status(proof.error());
}

// The source may be another class of artifact; it has the same model if its parameters are the
// same.
Status CheckSameModel(const artifact::BoundArtifact& source, const models::Model& model) {
  const std::vector<LogicalTensor> params = model.Logical();
  if (source.model_params() != params.size())
    return Corrupt("found {} parameters, the configuration has {}", source.model_params(),
                   params.size())
        .in(source.artifact.path);
  for (size_t i = 0; i < params.size(); ++i)
    if (source.params[i].name != params[i].name || source.params[i].shape != params[i].shape)
      return Corrupt("found {} {}, the configuration has {} {}", source.params[i].name,
                     ShapeText(source.params[i].shape), params[i].name, ShapeText(params[i].shape))
          .in(source.artifact.path);
  return OkStatus();
}

}  // namespace

std::vector<uint32_t> OwnNumbers(const models::Model& model) {
  std::vector<uint32_t> params(model.params.size());
  std::iota(params.begin(), params.end(), 0u);
  return params;
}

Status LoadWeights(const artifact::BoundArtifact& source, const models::Model& model,
                   const std::vector<RankMemory>& ranks, const artifact::RunOptions& run) {
  NXDKIT_TRY(CheckSameModel(source, model));
  return Fill(source, model, OwnNumbers(model), ranks, run);
}

Status LoadEntry(const artifact::BoundArtifact& source, const models::Model& model,
                 const std::string& entry, const std::vector<RankMemory>& ranks,
                 const artifact::RunOptions& run) {
  NXDKIT_TRY(CheckSameModel(source, model));
  std::vector<uint32_t> params;
  for (uint32_t i = 0; i < model.params.size(); ++i) {
    const auto bad = [&](std::string what) {
      return Error(Errc::kCorrupt, std::move(what))
          .in(source.artifact.path)
          .on(model.params[i].name);
    };
    const artifact::OptimizerEntry* found =
        source.optimizer ? source.optimizer->Find(i, entry) : nullptr;
    if (!found || found->kind != artifact::OptimizerEntry::Kind::kLike)
      return bad(fmt::format("the optimizer's state has no {} of it", entry));
    if (found->dtype != ranks.front().dtype)
      return bad(fmt::format("{} is {}, expected {}", entry, Name(found->dtype),
                             Name(ranks.front().dtype)));
    params.push_back(found->param);
  }
  return Fill(source, model, params, ranks, run);
}

std::shared_ptr<const Storage> StorageOf(std::vector<float> values) {
  return std::make_shared<NumbersStorage>(std::move(values));
}

void BindMemory(const models::Model& model, const std::vector<uint32_t>& params,
                const std::vector<RankMemory>& ranks, BoundLayout& to) {
  const uint32_t first_file = static_cast<uint32_t>(to.layout.files.size());
  Layout layout = LayoutOf(model, params, ranks);
  for (LayoutFile& file : layout.files) to.layout.files.push_back(std::move(file));
  for (TensorLayout& tensor : layout.tensors) {
    tensor.file += first_file;
    to.layout.tensors.push_back(std::move(tensor));
  }
  for (const RankMemory& memory : ranks) {
    const auto storage = std::make_shared<MemoryStorage>(memory);
    for (const Slot& slot : memory.table->slots) {
      const auto offset = static_cast<uint64_t>(slot.offset * ElementBytes(memory.dtype));
      to.stored.push_back({.name = model.params[slot.param].name,
                           .dtype = memory.dtype,
                           .shape = slot.shape,
                           .strides = RowMajorStrides(slot.shape),
                           .offset = offset,
                           .storage = storage});
    }
  }
}

}  // namespace nxdkit::trainer
