#include "formats/kinds/merge_lora.h"

#include <algorithm>

#include "formats/adapter/lora_tensors.h"
#include "formats/kinds/adapter.h"
#include "formats/kinds/kind.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

// A tied model has one parameter for its embedding and its head; an adapter belongs to one of them,
// and so does a copy that PEFT trained for modules_to_save.
Status RefuseTied(const BoundArtifact& base, const BoundArtifact& adapter) {
  if (!base.model || !base.model->config.tied) return OkStatus();
  const LoraParts& parts = *adapter.lora;
  for (size_t i = 0; i < base.model->params.size(); ++i) {
    if (base.model->params[i].role != models::Role::kEmbedding) continue;
    const bool apart = parts.wholes[i] && !parts.ties_head;
    if (!parts.pairs[i] && !apart) continue;
    return Unsupported("{}: the base has one parameter for both (tie_word_embeddings)",
                       apart ? "the adapter has trained its embedding or its head apart from the "
                               "other (modules_to_save without ensure_weight_tying)"
                             : "the adapter changes only the embedding, not the head")
        .in(adapter.artifact.path)
        .on(base.model->params[i].name)
        .hint(kUntieBase);
  }
  return OkStatus();
}

// Whether the parameter is computed from the base's and the adapter's, rather than taken from one.
bool IsSum(const LoraParts& parts, size_t param) { return parts.pairs[param] || parts.rows[param]; }

// A sum in F32 would lose the precision of an F64 weight.
Status RefuseWide(const BoundArtifact& base, const BoundArtifact& adapter,
                  const std::vector<Dtype>& dtypes) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (IsSum(*adapter.lora, i) && (dtypes[i] == Dtype::kF64 || !Info(dtypes[i]).floating))
      return Unsupported("the weight is {}; adapters are added in F32", Name(dtypes[i]))
          .in(base.artifact.path)
          .on(base.params[i].name);
  return OkStatus();
}

// The parameters that cannot be read where they are stored: those that change, and those in the
// same stored tensors.
std::vector<bool> Changed(const BoundArtifact& base, const LoraParts& parts) {
  std::vector<bool> changed(base.params.size(), false);
  for (size_t i = 0; i < changed.size(); ++i) changed[i] = IsSum(parts, i) || parts.wholes[i];
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

class MergedBinder {
 public:
  MergedBinder(BoundArtifact base, BoundArtifact adapter)
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
      if (IsSum(parts, i)) base_plan.outputs[i].dtype = Dtype::kF32;
    for (OutputTensor& output : adapter_plan.outputs) output.dtype = Dtype::kF32;
    tensors_ = MakeMergedTensors(base_, std::move(base_plan), adapter_, std::move(adapter_plan));
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
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(out_.artifact.files, adapter.files);
    append(out_.artifact.ranks, adapter.ranks);
    append(out_.artifact.warnings, adapter.warnings);
    append(out_.artifact.choices, adapter.choices);
    out_.model = base_->model;
    out_.params = base_->params;
    out_.state = base_->state;
    out_.objects = base_->objects;
    out_.left_out = base_->left_out;
    out_.base = base_;
    out_.merged = adapter_;
    out_.own_dtypes.assign(dtypes_.begin(), dtypes_.end());
    out_.reading_bytes = MergedReadingBytes();
    out_.bound.layout.files = out_.artifact.ranks;
  }

  void KeepUnchanged(const std::vector<bool>& changed) {
    for (size_t t = 0; t < base_->bound.stored.size(); ++t) {
      const TensorLayout& tensor = base_->bound.layout.tensors[t];
      if (std::ranges::any_of(tensor.pieces, [&](const Piece& p) { return changed[p.param]; }))
        continue;
      out_.bound.Add(tensor, base_->bound.stored[t]);
    }
  }

  void Add(uint32_t param, uint32_t file, StoredTensor stored) {
    TensorLayout tensor = WholeTensor(stored.name, file, param, stored.shape);
    out_.bound.Add(std::move(tensor), std::move(stored));
  }

  void AddChanged(uint32_t param, const PrimaryPlaces& places) {
    const BoundLayout& adapter = adapter_->bound;
    const std::optional<uint32_t>& whole = adapter_->lora->wholes[param];
    if (whole && !IsSum(*adapter_->lora, param)) {
      for (size_t t = 0; t < adapter.stored.size(); ++t)
        if (adapter.layout.tensors[t].pieces.front().param == *whole)
          Add(param,
              static_cast<uint32_t>(base_->artifact.files.size()) + adapter.layout.tensors[t].file,
              adapter.stored[t]);
      return;
    }
    // Grouped by the file that most is read from, so that neighbours are read together.
    const uint32_t file = places.of(param).empty()
                              ? 0
                              : base_->bound.layout.tensors[places.of(param).front().tensor].file;
    Add(param, file, tensors_(param));
  }

  std::shared_ptr<const BoundArtifact> base_;
  std::shared_ptr<const BoundArtifact> adapter_;
  MergedTensors tensors_;
  std::vector<Dtype> dtypes_;  // of the base's parameters
  BoundArtifact out_;
};

}  // namespace

Result<BoundArtifact> MergeLora(BoundArtifact base, const InputHints& hints) {
  if (base.merged)
    return BadUsage("an adapter is already merged into the model")
        .in(base.artifact.path)
        .hint("--lora base, or stored, leaves that one out");
  if (base.base)
    return BadUsage("an adapter cannot be merged into the result of a delta")
        .in(base.artifact.path)
        .hint("apply the delta first, and merge the adapter into the result");
  InputHints adapter_hints;
  adapter_hints.origin = hints.origin;
  adapter_hints.Set("hw", hints.Text("hw"));
  adapter_hints.Set("hw-if-unknown", hints.Text("hw-if-unknown"));
  adapter_hints.lora_alpha = hints.lora_alpha;
  if (base.artifact.kind->tell) base.artifact.kind->tell(base, adapter_hints);
  const models::Model* model = base.model ? &*base.model : nullptr;
  NXDKIT_ASSIGN(BoundArtifact adapter,
                BindLora(hints.lora, {&base.params, model, base.artifact.path}, {}, adapter_hints));
  return MergeAdapter(std::move(base), std::move(adapter));
}

Result<BoundArtifact> MergeAdapter(BoundArtifact base, BoundArtifact adapter) {
  return MergedBinder(std::move(base), std::move(adapter)).Run();
}

}  // namespace nxdkit::kinds
