#include "formats/adapter/lora_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "formats/adapter/lora_kernel.h"
#include "formats/artifact/computed_tensor.h"
#include "lib/base/scratch_pool.h"

namespace nxdkit::adapter {
namespace {

constexpr uint64_t kStagingBytes = 256 << 10;  // of each of two gatherers
constexpr int64_t kPanelFloats = 256 << 10;    // of A; at least one tile of it
constexpr int64_t kRowFloats = 16 << 10;       // of B; at least four rows of it
constexpr int64_t kNormFloats = 256 << 10;     // of rows whose norms are taken; at least one row

// DoRA: magnitude / norm of each row of W + scale * B A, computed when it is first needed.
struct RowFactors {
  std::mutex mutex;
  std::vector<float> values;
};

// Base and adapter together, with the scratch memory that threads need to read them.
class Merger {
 public:
  Merger(std::shared_ptr<const BoundArtifact> base, CanonicalPlan base_plan,
         std::shared_ptr<const BoundArtifact> adapter, CanonicalPlan adapter_plan)
      : base_(std::move(base)),
        base_plan_(std::move(base_plan)),
        base_reader_(base_->bound, base_plan_),
        adapter_(std::move(adapter)),
        adapter_plan_(std::move(adapter_plan)),
        adapter_reader_(adapter_->bound, adapter_plan_),
        path_(base_->artifact.path + " with " + adapter_->artifact.path) {
    const LoraParts& parts = *adapter_->lora;
    for (size_t i = 0; i < parts.pairs.size(); ++i) {
      const std::string& name = output(i).name;
      scales_.push_back(parts.pairs[i] ? static_cast<float>(parts.config.ScaleOf(
                                             std::string_view(name).substr(0, name.rfind('.'))))
                                       : 0.0F);
      factors_.push_back(parts.magnitudes[i] ? std::make_unique<RowFactors>() : nullptr);
    }
  }
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes(size_t param) const {
    return *PackedBytes(output(param).dtype, output(param).shape);
  }
  const OutputTensor& output(size_t param) const { return base_plan_.outputs[param]; }

  Status Read(size_t param, uint64_t offset, std::span<std::byte> to) const {
    const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
    NXDKIT_TRY(ReadSum(param, offset, to, *scratch));
    if (!factors_[param]) return OkStatus();
    NXDKIT_TRY(MakeFactors(param, *scratch));
    ScaleRows(param, offset, to);
    return OkStatus();
  }

 private:
  struct Scratch {
    Gatherer base{kStagingBytes};
    Gatherer adapter{kStagingBytes};
    size_t param = SIZE_MAX;   // the one whose columns are in `panel`
    int64_t column = 0;        // the first
    std::vector<float> panel;  // tiles of [rank, kLoraTile]
    std::vector<float> line;   // one row of the panel
    std::vector<float> rows;   // of B
    std::vector<float> sums;   // of which the norms are taken
  };

  // Without DoRA's factors.
  Status ReadSum(size_t param, uint64_t offset, std::span<std::byte> to, Scratch& scratch) const {
    const LoraParts& parts = *adapter_->lora;
    // PEFT saves an embedding next to its A and B.
    NXDKIT_TRY(parts.wholes[param]
                   ? adapter_reader_.Read(*parts.wholes[param], offset, to, scratch.adapter)
                   : base_reader_.Read(param, offset, to, scratch.base));
    if (parts.rows[param]) NXDKIT_TRY(ReplaceRows(param, offset, to, scratch));
    return parts.pairs[param] ? Add(param, offset, to, scratch) : OkStatus();
  }

  Status ReplaceRows(size_t param, uint64_t offset, std::span<std::byte> to,
                     Scratch& scratch) const {
    const LoraRows& rows = *adapter_->lora->rows[param];
    const uint64_t bytes = static_cast<uint64_t>(output(param).shape[1]) * sizeof(float);
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      const uint64_t row = static_cast<uint64_t>(rows.rows[i]) * bytes;
      const uint64_t begin = std::max(row, offset);
      const uint64_t end = std::min(row + bytes, offset + to.size());
      if (begin >= end) continue;
      NXDKIT_TRY(adapter_reader_.Read(
          rows.param, i * bytes + (begin - row),
          to.subspan(static_cast<size_t>(begin - offset), static_cast<size_t>(end - begin)),
          scratch.adapter));
    }
    return OkStatus();
  }

  Status MakeFactors(size_t param, Scratch& scratch) const {
    RowFactors& factors = *factors_[param];
    const std::lock_guard lock(factors.mutex);
    if (!factors.values.empty()) return OkStatus();
    const int64_t rows = output(param).shape[0];
    const int64_t in = output(param).shape[1];
    std::vector<float> values(static_cast<size_t>(rows));
    NXDKIT_TRY(ReadAdapter(*adapter_->lora->magnitudes[param], 0, values, scratch));
    const int64_t most = std::max<int64_t>(1, kNormFloats / in);
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t count = std::min(most, rows - row);
      scratch.sums.resize(static_cast<size_t>(count * in));
      NXDKIT_TRY(ReadSum(param, static_cast<uint64_t>(row * in) * sizeof(float),
                         std::as_writable_bytes(std::span(scratch.sums)), scratch));
      for (int64_t i = 0; i < count; ++i)
        values[static_cast<size_t>(row + i)] /= Norm(scratch.sums.data() + i * in, in);
    }
    factors.values = std::move(values);
    return OkStatus();
  }

  // Squares are added in F64 and in this order, whatever the machine.
  static float Norm(const float* row, int64_t columns) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += static_cast<double>(row[j]) * row[j];
    return static_cast<float>(std::sqrt(sum));
  }

  void ScaleRows(size_t param, uint64_t offset, std::span<std::byte> to) const {
    const std::vector<float>& factors = factors_[param]->values;
    const uint64_t in = static_cast<uint64_t>(output(param).shape[1]);
    for (size_t at = 0; at < to.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, to.data() + at, sizeof value);
      value *= factors[static_cast<size_t>((offset + at) / sizeof(float) / in)];
      std::memcpy(to.data() + at, &value, sizeof value);
    }
  }

  // The columns of a panel: always cut at the same places, so that neighbouring reads share them.
  static int64_t PanelColumns(int64_t rank, int64_t columns) {
    const int64_t tiles = std::max<int64_t>(1, kPanelFloats / rank / kLoraTile);
    return std::min(tiles * kLoraTile, (columns + kLoraTile - 1) / kLoraTile * kLoraTile);
  }

  Status Add(size_t param, uint64_t offset, std::span<std::byte> to, Scratch& scratch) const {
    const Shape& shape = output(param).shape;
    const int64_t first = static_cast<int64_t>(offset / sizeof(float));
    const int64_t count = static_cast<int64_t>(to.size() / sizeof(float));
    const int64_t width = PanelColumns(adapter_->lora->pairs[param]->rank, shape[1]);
    for (const Box& box : RangeBoxes(shape, first, first + count)) {
      const int64_t end = box.lo[1] + box.extent[1];
      for (int64_t column = box.lo[1] / width * width; column < end; column += width) {
        NXDKIT_TRY(LoadPanel(param, column, std::min(width, shape[1] - column), scratch));
        const int64_t from = std::max(column, box.lo[1]);
        const Box part = {{box.lo[0], from}, {box.extent[0], std::min(column + width, end) - from}};
        NXDKIT_TRY(AddPart(param, part, first, to, scratch));
      }
    }
    return OkStatus();
  }

  Status ReadAdapter(uint32_t param, int64_t element, std::span<float> to, Scratch& scratch) const {
    return adapter_reader_.Read(param, static_cast<uint64_t>(element) * sizeof(float),
                                std::as_writable_bytes(to), scratch.adapter);
  }

  Status LoadPanel(size_t param, int64_t column, int64_t columns, Scratch& scratch) const {
    if (scratch.param == param && scratch.column == column) return OkStatus();
    scratch.param = SIZE_MAX;
    const nxd::LoraPair& pair = *adapter_->lora->pairs[param];
    const int64_t in = output(param).shape[1];
    const int64_t tiles = (columns + kLoraTile - 1) / kLoraTile;
    scratch.panel.assign(static_cast<size_t>(tiles * pair.rank * kLoraTile), 0.0F);
    scratch.line.resize(static_cast<size_t>(columns));
    for (int64_t k = 0; k < pair.rank; ++k) {
      NXDKIT_TRY(ReadAdapter(pair.a, k * in + column, scratch.line, scratch));
      for (int64_t j = 0; j < columns; ++j)
        scratch.panel[static_cast<size_t>((j / kLoraTile * pair.rank + k) * kLoraTile +
                                          j % kLoraTile)] = scratch.line[static_cast<size_t>(j)];
    }
    scratch.param = param;
    scratch.column = column;
    return OkStatus();
  }

  // Adds to the elements of `part`, which must be in the loaded panel; `to` begins at element
  // `first`.
  Status AddPart(size_t param, const Box& part, int64_t first, std::span<std::byte> to,
                 Scratch& scratch) const {
    const nxd::LoraPair& pair = *adapter_->lora->pairs[param];
    const int64_t in = output(param).shape[1];
    const int64_t end = part.lo[0] + part.extent[0];
    const int64_t most = std::max<int64_t>(4, kRowFloats / pair.rank);
    for (int64_t row = part.lo[0]; row < end; row += most) {
      const int64_t rows = std::min(most, end - row);
      scratch.rows.resize(static_cast<size_t>(rows * pair.rank));
      NXDKIT_TRY(ReadAdapter(pair.b, row * pair.rank, scratch.rows, scratch));
      AddTiles(pair, part, rows, to.data() + (row * in - first) * int64_t{sizeof(float)}, in,
               scales_[param], scratch);
    }
    return OkStatus();
  }

  // `line` is where element [row, 0] of the weight would be.
  static void AddTiles(const nxd::LoraPair& pair, const Box& part, int64_t rows, std::byte* line,
                       int64_t in, float scale, const Scratch& scratch) {
    const int64_t begin = part.lo[1] - scratch.column;
    const int64_t end = begin + part.extent[1];
    constexpr int64_t kWidth = sizeof(float);
    for (int64_t tile = begin / kLoraTile; tile * kLoraTile < end; ++tile) {
      const int64_t at = tile * kLoraTile;
      AddLoraTile(scratch.panel.data() + at * pair.rank, scratch.rows.data(), pair.rank, rows,
                  scale, line + (scratch.column + at) * kWidth, in * kWidth,
                  static_cast<int>(std::max<int64_t>(0, begin - at)),
                  static_cast<int>(std::min<int64_t>(kLoraTile, end - at)));
    }
  }

  std::shared_ptr<const BoundArtifact> base_;
  CanonicalPlan base_plan_;
  CanonicalReader base_reader_;
  std::shared_ptr<const BoundArtifact> adapter_;
  CanonicalPlan adapter_plan_;
  CanonicalReader adapter_reader_;
  std::string path_;
  std::vector<float> scales_;                         // of each parameter's B A
  std::vector<std::unique_ptr<RowFactors>> factors_;  // null: no DoRA
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace

uint64_t MergedReadingBytes() {
  // Twice: a panel and its line, rows and the values that they replace.
  return 2 * kStagingBytes +
         static_cast<uint64_t>(2 * (kPanelFloats + kRowFloats) + kNormFloats) * sizeof(float);
}

MergedTensors MakeMergedTensors(std::shared_ptr<const BoundArtifact> base, CanonicalPlan base_plan,
                                std::shared_ptr<const BoundArtifact> adapter,
                                CanonicalPlan adapter_plan) {
  const auto merger = std::make_shared<const Merger>(std::move(base), std::move(base_plan),
                                                     std::move(adapter), std::move(adapter_plan));
  return [merger](size_t param) { return ComputedTensor(merger, param, merger->output(param)); };
}

}  // namespace nxdkit::adapter
