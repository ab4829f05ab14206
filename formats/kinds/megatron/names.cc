#include "formats/kinds/megatron/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;

constexpr char kView[] = "megatron";

bool IsVocabulary(const Key& key) {
  return key.name == "embedding.word_embeddings.weight" || key.name == "output_layer.weight";
}

std::string LayerName(std::string_view name, int64_t layer) {
  return fmt::format("decoder.layers.{}.{}", layer, name);
}

// The part of a tensor at `at`, without its first `gone` dimensions, which are one thick.
StoredTensor Inside(const StoredTensor& stored, const Shape& at, size_t gone) {
  StoredTensor view = stored;
  for (size_t d = 0; d < at.size(); ++d)
    view.offset += static_cast<uint64_t>(at[d] * stored.strides[d] * ElementBytes(stored.dtype));
  view.shape.erase(view.shape.begin(), view.shape.begin() + static_cast<std::ptrdiff_t>(gone));
  view.strides.erase(view.strides.begin(),
                     view.strides.begin() + static_cast<std::ptrdiff_t>(gone));
  return view;
}

// The part of `view`, which is at `box`, for one piece of the layout, in the parameter's
// coordinates.
struct PieceView {
  Box logical;
  StoredTensor stored;
};
// Whether the two meet along the first axis: this rules out all but one of very many experts.
bool MeetsFirst(const Piece& piece, const Box& box) {
  int64_t extent = 1;
  for (size_t d = 0; d < piece.axes.size(); ++d)
    if (piece.axes[d] == 0) extent = piece.logical.extent[d];
  return piece.stored_lo[0] < box.lo[0] + box.extent[0] && box.lo[0] < piece.stored_lo[0] + extent;
}

std::optional<PieceView> MeetPiece(const Piece& piece, const Box& box, const StoredTensor& view) {
  if (!box.lo.empty() && !MeetsFirst(piece, box)) return std::nullopt;
  const auto met = Intersect(StoredBox(piece, box.lo.size()), box);
  if (!met) return std::nullopt;
  PieceView out{piece.logical, view};
  const size_t rank = piece.axes.size();
  out.stored.shape.resize(rank);
  out.stored.strides.resize(rank);
  for (size_t d = 0; d < met->lo.size(); ++d)
    out.stored.offset += static_cast<uint64_t>((met->lo[d] - box.lo[d]) * view.strides[d] *
                                               ElementBytes(view.dtype));
  for (size_t d = 0; d < rank; ++d) {
    const size_t axis = piece.axes[d];
    out.logical.lo[d] += met->lo[axis] - piece.stored_lo[axis];
    out.logical.extent[d] = met->extent[axis];
    out.stored.shape[d] = met->extent[axis];
    out.stored.strides[d] = view.strides[axis];
  }
  return out;
}

}  // namespace

Result<MegatronNames> MegatronNames::Make(const models::Model& model) {
  MegatronNames out(model);
  if (!models::HasView(*model.config.family, kView))
    return Unsupported(
               "the text of the family {} does not have Megatron-Core's names for its parameters "
               "(view {})",
               model.config.family->model_type, kView)
        .hint("a text of yours may have it: --family");
  std::vector<std::optional<TensorLayout>> parts;
  for (TensorLayout& tensor : models::HfTensors(model, false))
    parts.emplace_back(std::move(tensor));
  NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                models::ViewTensors(model, kView, std::move(parts), 0));
  for (TensorLayout& tensor : tensors) {
    std::string name = tensor.name;
    out.layouts_.emplace(std::move(name), std::move(tensor));
  }
  return out;
}

bool MegatronNames::IsStacked(const Key& key) const {
  return key.in_layer && !key.layer && !key.mtp;
}

std::string MegatronNames::NameOf(const models::Param& param, const Key& key) const {
  if (!key.mtp) return param.name;
  const std::string last = fmt::format("model.layers.{}.", model_.config.layers - 1);
  return fmt::format("model.layers.{}.{}", model_.config.layers + *key.mtp,
                     param.name.substr(last.size()));
}

// A layer of multi-token prediction has four tensors besides those of an ordinary layer.
Status MegatronNames::AddCarried(const dcp::StoredEntry& entry, const Key& key,
                                 std::vector<dcp::StoredEntry>& out) {
  const std::string_view name =
      key.name == "final_layernorm.weight" ? std::string_view("shared_head.norm.weight") : key.name;
  dcp::StoredEntry made = entry;
  made.key = fmt::format("model.layers.{}.{}", model_.config.layers + *key.mtp, name);
  if (!models::IsCarried(model_, made.key))
    return Unsupported("a {} model has no layer of multi-token prediction by its config.json",
                       model_.config.family->model_type)
        .on(entry.key);
  carried_.insert(made.key);
  out.push_back(std::move(made));
  return OkStatus();
}

const TensorLayout* MegatronNames::Find(const Key& key, int64_t layer) const {
  if (key.mtp) layer = model_.config.layers - 1;
  for (const std::string_view name : {std::string_view(key.name), megatron::OtherName(key.name)}) {
    if (name.empty()) continue;
    const auto found = layouts_.find(key.in_layer ? LayerName(name, layer) : std::string(name));
    if (found != layouts_.end()) return &found->second;
  }
  return nullptr;
}

std::optional<Shape> MegatronNames::ShapeOf(const Key& key, const Shape& stored) const {
  const TensorLayout* layout = Find(key, key.layer.value_or(0));
  if (!layout) return std::nullopt;
  Shape shape = layout->shape;
  if (key.expert) shape.erase(shape.begin());
  if (key.half) shape.front() /= 2;
  // Padding depends on how the run was cut.
  if (IsVocabulary(key) && !stored.empty()) shape.front() = std::max(shape.front(), stored.front());
  if (IsStacked(key)) shape.insert(shape.begin(), model_.config.layers);
  return shape;
}

Status MegatronNames::ClaimOnce(const dcp::StoredEntry& entry, const Key& key) {
  const int64_t first = key.layer.value_or(0);
  const int64_t end = IsStacked(key) ? model_.config.layers : first + 1;
  for (int64_t layer = first; layer < end; ++layer) {
    const TensorLayout* layout = Find(key, layer);
    if (!layout) continue;
    const std::string name =
        fmt::format("{} {} {} {} {}", layout->name, key.mtp.value_or(-1), key.state,
                    key.expert ? std::to_string(*key.expert) : "", key.half.value_or(-1));
    const auto [known, added] = claimed_.emplace(name, entry.key);
    if (!added) return Corrupt("layer {} of it is in {} too", layer, known->second).on(entry.key);
  }
  return OkStatus();
}

// The rows with which a run pads the vocabulary are noise, or zeros: no parameter has them.
Status MegatronNames::LookAtCutRows(const dcp::StoredEntry& entry, const Key& key) {
  const int64_t rows = Find(key, 0)->shape.front();
  if (entry.shape.front() <= rows || !key.state.empty()) return OkStatus();
  CutRows& cut = cut_rows_[entry.key];
  cut.rows = entry.shape.front() - rows;
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    const int64_t first =
        std::clamp<int64_t>(rows - chunk.box.lo.front(), 0, chunk.box.extent.front());
    if (first == chunk.box.extent.front() || !cut.zero) continue;
    cut.zero = false;
    if (IsPacked(chunk.stored)) NXDKIT_TRY(IsZeroFrom(chunk.stored, first).To(cut.zero));
  }
  return OkStatus();
}

Status MegatronNames::Add(const dcp::StoredEntry& entry, const Key& key,
                          std::vector<dcp::StoredEntry>& out) {
  if (key.mtp && !key.in_layer) return AddCarried(entry, key, out);
  const std::optional<Shape> shape = ShapeOf(key, entry.shape);
  if (!shape)
    return Unsupported("a {} model has no such tensor in Megatron-Core; it would be lost",
                       model_.config.family->model_type)
        .on(entry.key);
  if (IsVocabulary(key) && entry.shape.size() == 2 && entry.shape[0] == 1 && (*shape)[0] > 1)
    return Unsupported("a value head, as of a critic; a language model has none").on(entry.key);
  if (IsVocabulary(key) && entry.shape != *shape && entry.shape.size() == 2)
    return Corrupt(
               "{} rows of {} found; config.json has a vocabulary of {} and a hidden size of {}",
               entry.shape[0], entry.shape[1], model_.config.vocab, model_.config.hidden)
        .on(entry.key)
        .hint("name the model's own config.json with --config");
  if (entry.shape != *shape)
    return Corrupt("shape {} found, {} expected", ShapeText(entry.shape), ShapeText(*shape))
        .on(entry.key);
  NXDKIT_TRY(ClaimOnce(entry, key));
  if (IsVocabulary(key)) NXDKIT_TRY(LookAtCutRows(entry, key));
  for (const dcp::StoredChunk& chunk : entry.chunks) NXDKIT_TRY(AddChunk(entry, chunk, key, out));
  return OkStatus();
}

Status MegatronNames::AddChunk(const dcp::StoredEntry& entry, const dcp::StoredChunk& chunk,
                               const Key& key, std::vector<dcp::StoredEntry>& out) {
  const bool stacked = IsStacked(key);
  const int64_t first = stacked ? chunk.box.lo.front() : key.layer.value_or(0);
  const int64_t end = stacked ? first + chunk.box.extent.front() : first + 1;
  for (int64_t layer = first; layer < end; ++layer) {
    const TensorLayout* layout = Find(key, layer);
    if (!layout)
      return Unsupported("layer {} of a {} model has no such tensor", layer,
                         model_.config.family->model_type)
          .on(entry.key);
    Box box = chunk.box;
    Shape at;
    if (stacked) {
      at.push_back(layer - first);
      box.lo.erase(box.lo.begin());
      box.extent.erase(box.extent.begin());
    }
    StoredTensor view = Inside(chunk.stored, at, at.size());
    // Halves and numbered experts have their places in the layout's tensor.
    if (key.half) box.lo.front() += *key.half * layout->shape[key.expert ? 1 : 0] / 2;
    if (key.expert) {
      if (*key.expert >= layout->shape.front())
        return Corrupt("expert {} of {}", *key.expert, layout->shape.front()).on(entry.key);
      box.lo.insert(box.lo.begin(), *key.expert);
      box.extent.insert(box.extent.begin(), 1);
      view.shape.insert(view.shape.begin(), 1);
      view.strides.insert(view.strides.begin(), 0);
    }
    NXDKIT_TRY(AddPart(*layout, box, view, entry, chunk, key, out));
  }
  return OkStatus();
}

Status MegatronNames::AddPart(const TensorLayout& layout, const Box& box, const StoredTensor& view,
                              const dcp::StoredEntry& entry, const dcp::StoredChunk& chunk,
                              const Key& key, std::vector<dcp::StoredEntry>& out) {
  for (const Piece& piece : layout.pieces) {
    std::optional<PieceView> met = MeetPiece(piece, box, view);
    if (!met) continue;
    const models::Param& param = model_.params[piece.param];
    std::string name = NameOf(param, key);
    if (key.mtp && !models::IsCarried(model_, name))
      return Unsupported("a {} model has no layer of multi-token prediction by its config.json",
                         model_.config.family->model_type)
          .on(entry.key);
    if (key.mtp) carried_.insert(name);
    if (!key.state.empty()) name = fmt::format("{}{}.{}", kOptimizerState, name, key.state);
    const auto [number, added] = numbers_.emplace(name, out.size());
    if (added) out.push_back({std::move(name), entry.dtype, param.shape, {}});
    dcp::StoredEntry& made = out[number->second];
    if (made.dtype != entry.dtype)
      return Corrupt("{} is stored partly as {} and partly as {}", param.name, Name(made.dtype),
                     Name(entry.dtype))
          .on(entry.key);
    met->stored.name = made.key;
    made.chunks.push_back({std::move(met->logical), chunk.file, std::move(met->stored)});
  }
  return OkStatus();
}

}  // namespace nxdkit::kinds
