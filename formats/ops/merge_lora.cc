// A model read with an adapter added: each adapted weight is a storage that computes what is asked
// for. Nothing is ever held but a part of A, a few rows of B and what was asked for.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "formats/ops/canonical_reader.h"
#include "formats/ops/lora.h"
#include "formats/ops/lora_kernel.h"
#include "lib/file.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kStagingBytes = 256 << 10;  // of each of two gatherers
constexpr int64_t kPanelFloats = 256 << 10;    // of A; at least one tile of it
constexpr int64_t kRowFloats = 16 << 10;       // of B; at least four rows of it

// Base and adapter together, and what threads need to read them.
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
        path_(base_->artifact.path + " with " + adapter_->artifact.path) {}
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  const std::string& path() const { return path_; }
  const OutputTensor& output(size_t param) const { return base_plan_.outputs[param]; }

  Status Read(size_t param, uint64_t offset, std::span<std::byte> to) const {
    std::unique_ptr<Scratch> scratch = Borrow();
    Status read = base_reader_.Read(param, offset, to, scratch->base);
    if (read.ok() && adapter_->lora->pairs[param]) read = Add(param, offset, to, *scratch);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(scratch));
    return read;
  }

 private:
  struct Scratch {
    Gatherer base{kStagingBytes};
    Gatherer adapter{kStagingBytes};
    size_t param = SIZE_MAX;   // whose columns are in `panel`
    int64_t column = 0;        // the first
    std::vector<float> panel;  // tiles of [rank, kLoraTile]
    std::vector<float> line;   // one row of the panel
    std::vector<float> rows;   // of B
  };

  std::unique_ptr<Scratch> Borrow() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return scratch;
  }

  // Columns of a panel: always cut at the same places, so that neighbouring reads share them.
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

  // Adds to the elements of `part`, which lie in the loaded panel; `to` begins at element `first`.
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
               ScaleOf(param), scratch);
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

  float ScaleOf(size_t param) const {
    const std::string& name = output(param).name;
    return static_cast<float>(
        adapter_->lora->config.ScaleOf(std::string_view(name).substr(0, name.rfind('.'))));
  }

  std::shared_ptr<const BoundArtifact> base_;
  CanonicalPlan base_plan_;
  CanonicalReader base_reader_;
  std::shared_ptr<const BoundArtifact> adapter_;
  CanonicalPlan adapter_plan_;
  CanonicalReader adapter_reader_;
  std::string path_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

class MergedStorage : public Storage {
 public:
  MergedStorage(std::shared_ptr<const Merger> merger, size_t param)
      : merger_(std::move(merger)),
        param_(param),
        bytes_(*PackedBytes(merger_->output(param).dtype, merger_->output(param).shape)) {}
  uint64_t bytes() const override { return bytes_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    NXDKIT_CHECK(offset <= bytes() && to.size() <= bytes() - offset);
    return merger_->Read(param_, offset, to);
  }
  const std::string& path() const override { return merger_->path(); }
  uint64_t file_offset() const override { return 0; }

 private:
  std::shared_ptr<const Merger> merger_;  // shared by all parameters
  size_t param_;
  uint64_t bytes_;
};

// A tied model has one parameter for its embedding and its head; an adapter is of one of them.
Status RefuseTied(const BoundArtifact& base, const BoundArtifact& adapter) {
  if (!base.model || !base.model->config.tied) return OkStatus();
  for (size_t i = 0; i < base.model->params.size(); ++i) {
    if (base.model->params[i].role != models::Role::kEmbedding) continue;
    if (!adapter.lora->pairs[i] && !adapter.lora->wholes[i]) continue;
    return Error(Errc::kUnsupported,
                 "the adapter changes the embedding, which is the head too (tie_word_embeddings): "
                 "merged, it would change both")
        .in(adapter.artifact.path)
        .on(base.model->params[i].name);
  }
  return OkStatus();
}

// A sum in F32 would lose what an F64 weight has.
Status RefuseWide(const BoundArtifact& base, const BoundArtifact& adapter,
                  const std::vector<Dtype>& dtypes) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (adapter.lora->pairs[i] && (dtypes[i] == Dtype::kF64 || !Info(dtypes[i]).floating))
      return Error(Errc::kUnsupported,
                   fmt::format("the weight is {}; adapters are added in F32", Name(dtypes[i])))
          .in(base.artifact.path)
          .on(base.params[i].name);
  return OkStatus();
}

// Parameters that cannot be read where they are stored: those that change, and what is stored in
// one tensor with them.
std::vector<bool> Changed(const BoundArtifact& base, const LoraParts& parts) {
  std::vector<bool> changed(base.params.size(), false);
  for (size_t i = 0; i < changed.size(); ++i) changed[i] = parts.pairs[i] || parts.wholes[i];
  for (bool more = true; more;) {
    more = false;
    for (const TensorLayout& tensor : base.bound.layout.tensors) {
      if (std::ranges::none_of(tensor.pieces, [&](const Piece& p) { return changed[p.param]; }))
        continue;
      for (const Piece& piece : tensor.pieces) {
        more |= !changed[piece.param];
        changed[piece.param] = true;
      }
    }
  }
  return changed;
}

class Binder {
 public:
  Binder(BoundArtifact base, BoundArtifact adapter)
      : base_(std::make_shared<const BoundArtifact>(std::move(base))),
        adapter_(std::make_shared<const BoundArtifact>(std::move(adapter))) {}

  Result<BoundArtifact> Run() {
    NXDKIT_TRY(RefuseTied(*base_, *adapter_));
    NXDKIT_ASSIGN(CanonicalPlan base_plan, PlanCanonical(*base_));
    for (const OutputTensor& output : base_plan.outputs) dtypes_.push_back(output.dtype);
    NXDKIT_TRY(RefuseWide(*base_, *adapter_, dtypes_));
    NXDKIT_ASSIGN(CanonicalPlan adapter_plan, PlanCanonical(*adapter_));
    const LoraParts& parts = *adapter_->lora;
    for (size_t i = 0; i < dtypes_.size(); ++i)
      if (parts.pairs[i]) base_plan.outputs[i].dtype = Dtype::kF32;
    for (OutputTensor& output : adapter_plan.outputs) output.dtype = Dtype::kF32;
    merger_ = std::make_shared<const Merger>(base_, std::move(base_plan), adapter_,
                                             std::move(adapter_plan));
    Describe();
    const std::vector<bool> changed = Changed(*base_, parts);
    KeepUnchanged(changed);
    NXDKIT_ASSIGN(const PrimaryPlaces places,
                  PrimaryPlaces::Find(base_->params, base_->bound.layout));
    for (uint32_t i = 0; i < changed.size(); ++i)
      if (changed[i]) AddChanged(i, places);
    return std::move(out_);
  }

 private:
  void Describe() {
    out_.artifact = base_->artifact;
    const Artifact& adapter = adapter_->artifact;
    out_.artifact.files.insert(out_.artifact.files.end(), adapter.files.begin(),
                               adapter.files.end());
    out_.artifact.ranks.insert(out_.artifact.ranks.end(), adapter.ranks.begin(),
                               adapter.ranks.end());
    out_.artifact.warnings.insert(out_.artifact.warnings.end(), adapter.warnings.begin(),
                                  adapter.warnings.end());
    out_.model = base_->model;
    out_.params = base_->params;
    out_.nxd_geometry = base_->nxd_geometry;
    out_.replicas = base_->replicas;
    out_.rollout_geometry = base_->rollout_geometry;
    out_.left_out = base_->left_out;
    out_.base = base_;
    out_.merged = adapter_;
    out_.own_dtypes.assign(dtypes_.begin(), dtypes_.end());
    out_.reading_bytes =
        2 * kStagingBytes + static_cast<uint64_t>(kPanelFloats + kRowFloats) * 2 * sizeof(float);
    out_.bound.layout.files = out_.artifact.ranks;
  }

  void KeepUnchanged(const std::vector<bool>& changed) {
    for (size_t t = 0; t < base_->bound.stored.size(); ++t) {
      const TensorLayout& tensor = base_->bound.layout.tensors[t];
      if (std::ranges::any_of(tensor.pieces, [&](const Piece& p) { return changed[p.param]; }))
        continue;
      out_.bound.layout.tensors.push_back(tensor);
      out_.bound.stored.push_back(base_->bound.stored[t]);
    }
  }

  void Add(uint32_t param, uint32_t file, StoredTensor stored) {
    TensorLayout tensor{stored.name, file, stored.shape, std::nullopt, {}, {}};
    AddWhole(tensor, param, stored.shape);
    out_.bound.layout.tensors.push_back(std::move(tensor));
    out_.bound.stored.push_back(std::move(stored));
  }

  void AddChanged(uint32_t param, const PrimaryPlaces& places) {
    const BoundLayout& adapter = adapter_->bound;
    if (const std::optional<uint32_t>& whole = adapter_->lora->wholes[param]) {
      for (size_t t = 0; t < adapter.stored.size(); ++t)
        if (adapter.layout.tensors[t].pieces.front().param == *whole)
          Add(param,
              static_cast<uint32_t>(base_->artifact.files.size()) + adapter.layout.tensors[t].file,
              adapter.stored[t]);
      return;
    }
    const OutputTensor& output = merger_->output(param);
    // With the file that most is read from, so that neighbours are read together.
    const uint32_t file = places.of(param).empty()
                              ? 0
                              : base_->bound.layout.tensors[places.of(param).front().tensor].file;
    Add(param, file,
        {output.name, output.dtype, output.shape, RowMajorStrides(output.shape), 0, false,
         std::make_shared<const MergedStorage>(merger_, param)});
  }

  std::shared_ptr<const BoundArtifact> base_;
  std::shared_ptr<const BoundArtifact> adapter_;
  std::shared_ptr<const Merger> merger_;
  std::vector<Dtype> dtypes_;  // of the base's parameters
  BoundArtifact out_;
};

}  // namespace

Result<BoundArtifact> MergeLora(BoundArtifact base, const InputHints& hints) {
  if (base.artifact.delta)
    return Error(Errc::kUsage, "an adapter cannot be merged into what a delta makes")
        .in(base.artifact.path)
        .hint("apply the delta first, and merge the adapter into what comes out");
  InputHints adapter_hints;
  adapter_hints.claims.origin = hints.claims.origin;
  adapter_hints.claims.hardware = hints.claims.hardware;
  adapter_hints.hardware_if_unknown = hints.hardware_if_unknown;
  if (base.artifact.kind == Kind::kNxd && !adapter_hints.hardware_if_unknown)
    adapter_hints.hardware_if_unknown = base.nxd_geometry.hardware;
  const models::Model* model = base.model ? &*base.model : nullptr;
  NXDKIT_ASSIGN(BoundArtifact adapter,
                BindLora(hints.lora, {&base.params, model, base.artifact.path}, {}, adapter_hints));
  return Binder(std::move(base), std::move(adapter)).Run();
}

}  // namespace nxdkit::ops
