#include "formats/kinds/nxd/plan_optimizer.h"

#include "lib/base/errors.h"

#include <algorithm>

namespace nxdkit::kinds {
namespace {

using torch::PickleDict;
using torch::PickleValue;
using EntryKind = OptimizerEntry::Kind;
using nxd::OptimizerStyle;

constexpr int64_t kMaxFiles = 1'000'000;

Result<std::string> ScalarBytes(const StoredTensor& stored) {
  std::string bytes(static_cast<size_t>(ElementBytes(stored.dtype)), '\0');
  NXDKIT_TRY(stored.storage->ReadAt(stored.offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// Whether two tensors without dimensions, of one dtype, are equal.
Result<bool> SameScalar(const BoundLayout& bound, const OptimizerEntry& a,
                        const OptimizerEntry& b) {
  const StoredTensor& x = bound.stored[a.stored];
  const StoredTensor& y = bound.stored[b.stored];
  if (x.storage == y.storage && x.offset == y.offset) return true;
  NXDKIT_ASSIGN(const std::string x_bytes, ScalarBytes(x));
  NXDKIT_ASSIGN(const std::string y_bytes, ScalarBytes(y));
  return x_bytes == y_bytes;
}

class TreeMaker {
 public:
  TreeMaker(const BoundArtifact& source, const NxdOutput& output,
            const std::vector<TensorLayout>& params, int dp_rank)
      : source_(source), optimizer_(*source.optimizer), output_(output), dp_rank_(dp_rank) {
    for (const std::vector<size_t>& group :
         nxd::GroupParams(params, optimizer_.order, source.model->config.tied)) {
      group_sizes_.push_back(group.size());
      for (const size_t index : group) by_pid_.push_back(&params[index]);
    }
  }

  Result<OptimizerTree> Make() {
    const char* states = Has("base_state") ? "base_state" : "state";
    PickleDict root;
    for (const std::string& key : optimizer_.keys) {
      PickleValue value = PickleValue::MakeDict({});
      if (key == "param_groups") value = Groups();
      if (key == "shape_info") value = Shapes();
      if (key == states) NXDKIT_TRY(States().To(value));
      if (key == nxd::kMasterWeights) NXDKIT_TRY(MasterWeights().To(value));
      root.push_back({{key}, std::move(value)});
    }
    tree_.root = PickleValue::MakeDict(std::move(root));
    return std::move(tree_);
  }

 private:
  bool Has(std::string_view key) const {
    return std::ranges::find(optimizer_.keys, key) != optimizer_.keys.end();
  }

  PickleValue Groups() const {
    torch::PickleList out;
    int64_t pid = 0;
    for (size_t g = 0; g < group_sizes_.size(); ++g) {
      torch::PickleList pids;
      for (size_t i = 0; i < group_sizes_[g]; ++i) pids.push_back({pid++});
      PickleDict group = optimizer_.groups[g];
      for (auto& [key, value] : group)
        if (*key.string() == "params") value = PickleValue::MakeList(pids);
      out.push_back(PickleValue::MakeDict(std::move(group)));
    }
    return PickleValue::MakeList(std::move(out));
  }

  PickleValue Shapes() const {
    PickleDict out;
    for (size_t pid = 0; pid < by_pid_.size(); ++pid) {
      const Shape& shape = by_pid_[pid]->shape;
      PickleValue value{torch::TorchSize{shape}};
      if (!optimizer_.shapes_are_sizes) {
        torch::PickleList extents;
        for (const int64_t extent : shape) extents.push_back({extent});
        value = PickleValue::MakeList(std::move(extents));
      }
      out.push_back({{static_cast<int64_t>(pid)}, std::move(value)});
    }
    return PickleValue::MakeDict(std::move(out));
  }

  Result<PickleValue> States() {
    PickleDict out;
    for (size_t pid = 0; pid < by_pid_.size(); ++pid) {
      const TensorLayout& param = *by_pid_[pid];
      NXDKIT_TRY(CheckPartsAgree(param).on(param.name));
      const auto& entries = optimizer_.entries[param.pieces.front().param];
      if (entries) out.push_back({{static_cast<int64_t>(pid)}, StateOf(param, *entries)});
    }
    return PickleValue::MakeDict(std::move(out));
  }

  PickleValue StateOf(const TensorLayout& param, const std::vector<OptimizerEntry>& entries) {
    PickleDict state;
    for (size_t e = 0; e < entries.size(); ++e) {
      PickleValue value = entries[e].value;
      if (entries[e].kind != EntryKind::kValue)
        value = AddTensor(param, entries[e],
                          [&](uint32_t i) { return (*optimizer_.entries[i])[e].param; });
      state.push_back({{entries[e].name}, std::move(value)});
    }
    return PickleValue::MakeDict(std::move(state));
  }

  Result<PickleValue> MasterWeights() {
    PickleDict out;
    for (size_t pid = 0; pid < by_pid_.size(); ++pid) {
      const TensorLayout& param = *by_pid_[pid];
      const auto& master = optimizer_.masters[param.pieces.front().param];
      for (const Piece& piece : param.pieces)
        if (const auto& other = optimizer_.masters[piece.param];
            other.has_value() != master.has_value())
          return PartsDiffer(param, piece.param, "the master weight of one is missing")
              .on(param.name);
        else if (other && other->dtype != master->dtype)
          return PartsDiffer(param, piece.param, "the dtype of the master weights").on(param.name);
      if (!master) continue;
      PickleValue tensor =
          AddTensor(param, *master, [&](uint32_t i) { return optimizer_.masters[i]->param; });
      out.push_back({{static_cast<int64_t>(pid)}, std::move(tensor)});
    }
    return PickleValue::MakeDict(std::move(out));
  }

  std::string HintOn(uint32_t param) const {
    const bool is_qkv = source_.params[param].name.find(".self_attn.") != std::string::npos;
    return is_qkv ? "the input's --qkv keeps them apart"
                  : "--no-optimizer converts only the weights";
  }

  Error PartsDiffer(const TensorLayout& tensor, uint32_t other, std::string_view what) const {
    return Unsupported(
               "{} and {} become one parameter, but the optimizer keeps something else of each: {}",
               source_.params[tensor.pieces.front().param].name, source_.params[other].name, what)
        .hint(HintOn(other));
  }

  // Parameters that the output fuses must have had the same steps: there is one step for all of
  // them.
  Status CheckPartsAgree(const TensorLayout& tensor) const {
    const uint32_t front = tensor.pieces.front().param;
    const auto& first = optimizer_.entries[front];
    uint32_t last = front;
    for (const Piece& piece : tensor.pieces) {
      if (piece.param == last) continue;
      last = piece.param;
      const auto& other = optimizer_.entries[last];
      if (first.has_value() != other.has_value() || (first && first->size() != other->size()))
        return PartsDiffer(tensor, last, "one has fewer entries");
      for (size_t e = 0; first && e < first->size(); ++e) {
        const OptimizerEntry& a = (*first)[e];
        const OptimizerEntry& b = (*other)[e];
        if (a.name != b.name || a.kind != b.kind || a.dtype != b.dtype ||
            a.value_text != b.value_text)
          return PartsDiffer(tensor, last, a.name);
        if (a.kind != EntryKind::kScalar) continue;
        NXDKIT_ASSIGN(const bool same, SameScalar(source_.bound, a, b));
        if (!same) return PartsDiffer(tensor, last, a.name);
      }
    }
    return OkStatus();
  }

  // `logical` gives the logical parameter for a state entry of a model parameter.
  template <typename Logical>
  PickleValue AddTensor(const TensorLayout& param, const OptimizerEntry& entry, Logical logical) {
    const size_t index = tree_.tensors.size();
    TensorLayout layout = param;
    if (entry.kind == EntryKind::kScalar) {
      layout = WholeTensor("", 0, entry.param, {});
    } else {
      for (Piece& piece : layout.pieces) piece.param = logical(piece.param);
      if (output_.optimizer_style == OptimizerStyle::kZero1) {
        const int64_t rows = nxd::ZeroRows(param.shape[0], output_.dp);
        layout = CutRows(layout, dp_rank_ * rows, rows);
      }
      // The dtype may be wider than the stored one.
      layout.dtype = entry.dtype;
    }
    layout.name = param.name + "/" + entry.name;
    tree_.tensors.push_back(std::move(layout));
    if (output_.xser) return {torch::TensorReference{static_cast<int64_t>(index)}};
    return {torch::TensorIndex{index}};
  }

  const BoundArtifact& source_;
  const BoundOptimizer& optimizer_;
  const NxdOutput& output_;
  int dp_rank_;
  std::vector<size_t> group_sizes_;
  std::vector<const TensorLayout*> by_pid_;
  OptimizerTree tree_;
};

// Whether the tied lm_head has its own number depends on the module: on one pipeline rank it is the
// embedding's own object, on several it is not, and then a trained tag stores both. This holds even
// if the input stores no head.
Status CheckTiedPair(const BoundArtifact& source, const NxdOutput& output) {
  // For a checkpoint that was made from a tag, the record has it.
  const NumberedForm* form = source.optimizer->form ? &*source.optimizer->form : nullptr;
  const int known = form && form->pp > 0 ? form->pp : source.optimizer->pp;
  const bool one_stage = known == 1;
  if (!source.model->config.tied || one_stage == (output.geometry.pp == 1)) return OkStatus();
  return Unsupported(
             "the embeddings are tied: whether lm_head.weight has a state of its own is known for "
             "pp {}, but not for pp {}",
             known, output.geometry.pp)
      .in(source.artifact.path)
      .hint(one_stage ? "keep --pp 1, or leave the optimizer's state out with --no-optimizer"
                      : "keep --pp above 1, or leave the optimizer's state out with "
                        "--no-optimizer");
}

}  // namespace

Status DecideOptimizer(const BoundArtifact& source, std::optional<int> dp, NxdOutput& output) {
  if (!source.optimizer) {
    if (output.training_tag)
      output.notes.push_back("without an optimizer: only the model's weights are written");
    if (dp) output.notes.push_back("no optimizer state, so --dp changes nothing");
    return OkStatus();
  }
  NXDKIT_TRY(CheckTiedPair(source, output));
  output.optimizer_style = source.optimizer->style;
  output.dp = source.optimizer->dp;
  if (output.optimizer_style == OptimizerStyle::kMerged && dp)
    output.optimizer_style = OptimizerStyle::kZero1;
  if (output.optimizer_style == OptimizerStyle::kReplicated && dp)
    output.notes.push_back(
        "the optimizer's state is the same on all data parallel ranks: --dp changes nothing");
  else
    output.dp = dp.value_or(output.dp);
  const int64_t ranks = int64_t{output.geometry.tp} * output.geometry.pp;
  if (ranks > kMaxFiles || ranks * output.dp > kMaxFiles)
    return BadUsage("tp {} pp {} dp {} would be more than {} optimizer files", output.geometry.tp,
                    output.geometry.pp, output.dp, kMaxFiles);
  return OkStatus();
}

Result<OptimizerTree> MakeOptimizerTree(const BoundArtifact& source, const NxdOutput& output,
                                        const std::vector<TensorLayout>& params, int dp_rank) {
  return TreeMaker(source, output, params, dp_rank).Make();
}

}  // namespace nxdkit::kinds
