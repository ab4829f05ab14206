#include "formats/kinds/dcp/read_dcp.h"

#include <algorithm>
#include <map>
#include <utility>

#include "formats/dcp/folder.h"
#include "formats/nxd/optimizer_set.h"
#include "formats/torch/pickle_writer.h"
#include "formats/training/numbered_form.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using EntryKind = OptimizerEntry::Kind;
using torch::PickleDict;
using torch::PickleValue;

static_assert(std::string_view(dcp::kMasterWeights) == nxd::kMasterWeights);

class DcpBinder {
 public:
  DcpBinder(BoundArtifact& out, const DcpTensors& known) : out_(out), known_(known) {}

  Status Run() {
    const size_t params = out_.params.size();
    optimizer_.style = nxd::OptimizerStyle::kNamed;
    optimizer_.entries.resize(params);
    optimizer_.masters.resize(params);
    optimizer_.group_of.resize(params, 0);
    NXDKIT_TRY(AddTensors());
    NXDKIT_TRY(AddNumbers());
    const auto has_state = [](const auto& kept) { return kept.has_value(); };
    // Before the first step there may be only master weights.
    if (std::ranges::none_of(optimizer_.entries, has_state) &&
        std::ranges::none_of(optimizer_.masters, has_state))
      return OkStatus();
    NXDKIT_ASSIGN(options_, ReadDcpOptions(out_, known_, optimizer_.entries.size()));
    NXDKIT_TRY(MakeGroups());
    NXDKIT_TRY(ReadRecord());
    optimizer_.options = std::move(options_);
    out_.optimizer = std::move(optimizer_);
    return OkStatus();
  }

 private:
  Status AddTensors() {
    for (const dcp::StoredEntry& entry : DcpFolderOf(out_.artifact)->tensors)
      if (entry.key.starts_with(kOptimizerState))
        NXDKIT_TRY(AddState(entry).in(out_.artifact.path).on(entry.key));
      else if (entry.key.starts_with(kOptimizerPrefix) && !entry.key.starts_with(kOptimizerGroups))
        out_.left_out.push_back(entry.key);
    return OkStatus();
  }

  // A step may be a plain number, as torch had it before 1.12.
  Status AddNumbers() {
    for (const dcp::ObjectEntry& object : DcpFolderOf(out_.artifact)->metadata.objects)
      if (object.key.starts_with(kOptimizerState))
        NXDKIT_TRY(AddNumber(object).in(out_.artifact.path).on(object.key));
    return OkStatus();
  }

  Status AddState(const dcp::StoredEntry& entry) {
    const auto [name, what] =
        SplitStateKey(std::string_view(entry.key).substr(kOptimizerState.size()));
    NXDKIT_ASSIGN(const dcp::GlobalTensor* tensor, FindDcpTensor(known_, name));
    if (entry.shape.empty()) {
      for (const uint32_t i : ParamsOf(tensor->layout)) NXDKIT_TRY(AddScalar(entry, what, i));
      return OkStatus();
    }
    if (entry.shape != tensor->shape)
      return Corrupt("shape {} found, the parameter has {}", ShapeText(entry.shape),
                     ShapeText(tensor->shape));
    std::map<uint32_t, uint32_t> numbers;  // of the state, by parameter
    for (const uint32_t i : ParamsOf(tensor->layout))
      NXDKIT_TRY(
          Number(i, what, EntryKind::kLike, entry.dtype, out_.params[i].shape).To(numbers[i]));
    for (const dcp::StoredChunk& chunk : entry.chunks) {
      TensorLayout layout = dcp::CutChunk(*tensor, chunk.box);
      for (Piece& piece : layout.pieces) piece.param = numbers.at(piece.param);
      AddChunk(entry, chunk, std::move(layout));
    }
    return OkStatus();
  }

  void AddChunk(const dcp::StoredEntry& entry, const dcp::StoredChunk& chunk, TensorLayout layout) {
    layout.name = entry.key;
    layout.file = chunk.file;
    StoredTensor stored = dcp::SeenAs(chunk.stored, layout.shape);
    out_.bound.Add(std::move(layout), std::move(stored));
  }

  // A tensor of several parameters has one step: it applies to each of them.
  Status AddScalar(const dcp::StoredEntry& entry, const std::string& what, uint32_t i) {
    NXDKIT_ASSIGN(const uint32_t number, Number(i, what, EntryKind::kScalar, entry.dtype, {}));
    const dcp::StoredChunk& chunk = entry.chunks.front();
    out_.bound.Add(WholeTensor(entry.key, chunk.file, number, {}), chunk.stored);
    return OkStatus();
  }

  // The logical parameter for an entry of model parameter `i`. The same one is returned for a
  // second copy: copies are compared before one of them is read.
  Result<uint32_t> Number(uint32_t i, const std::string& what, EntryKind kind, Dtype dtype,
                          Shape shape) {
    if (const OptimizerEntry* known = optimizer_.Find(i, what)) {
      if (known->kind == kind && known->dtype == dtype) return known->param;
      return KeptOtherwise(i, what);
    }
    const bool master = what == nxd::kMasterWeights;
    if (!master && !optimizer_.entries[i]) optimizer_.entries[i].emplace();
    LogicalTensor logical = out_.params[i];
    logical.name += "/" + what;
    if (kind == EntryKind::kScalar) logical = {logical.name, {}, 0, 0};
    logical.shape = std::move(shape);
    const auto number = static_cast<uint32_t>(out_.params.size());
    out_.params.push_back(std::move(logical));
    OptimizerEntry entry{what, kind, number, out_.bound.stored.size(), dtype, {}, ""};
    if (master)
      optimizer_.masters[i] = std::move(entry);
    else
      optimizer_.entries[i]->push_back(std::move(entry));
    return number;
  }

  Status AddNumber(const dcp::ObjectEntry& object) {
    const auto [name, what] =
        SplitStateKey(std::string_view(object.key).substr(kOptimizerState.size()));
    NXDKIT_ASSIGN(const dcp::GlobalTensor* tensor, FindDcpTensor(known_, name));
    NXDKIT_ASSIGN(const PickleValue value,
                  dcp::ReadObjectValue(*DcpFolderOf(out_.artifact), object));
    NXDKIT_ASSIGN(const std::string text, torch::WritePickle(value, {}));
    for (const uint32_t i : ParamsOf(tensor->layout)) {
      const OptimizerEntry* known = optimizer_.Find(i, what);
      if (known && known->value_text != text) return KeptOtherwise(i, what);
      if (known) continue;
      if (!optimizer_.entries[i]) optimizer_.entries[i].emplace();
      optimizer_.entries[i]->push_back({what, EntryKind::kValue, 0, 0, Dtype::kF32, value, text});
    }
    return OkStatus();
  }

  Error KeptOtherwise(uint32_t i, const std::string& what) const {
    return Corrupt("the {} of {} is kept under another of its names too, and as something else",
                   what, out_.params[i].name);
  }

  // Parameters with the same options are a group, in whatever order the ranks saved them; so are
  // those that have state and no options.
  Status MakeGroups() {
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < options_.size(); ++i) {
      if (options_[i].empty() && !optimizer_.entries[i]) continue;  // not trained
      NXDKIT_ASSIGN(const std::string text,
                    torch::WritePickle(torch::PickleValue::MakeDict(options_[i]), {})
                        .in(out_.artifact.path)
                        .on(out_.params[i].name));
      const auto [number, added] = numbers.emplace(text, optimizer_.groups.size());
      if (added) optimizer_.groups.push_back(options_[i]);
      optimizer_.group_of[i] = number->second;
    }
    return OkStatus();
  }

  // Reads the record of the tag that the checkpoint was made from.
  Status ReadRecord() {
    for (const dcp::ObjectEntry& object : DcpFolderOf(out_.artifact)->metadata.objects) {
      if (object.key != kNumberedFormKey) continue;
      NXDKIT_ASSIGN(const torch::PickleValue value,
                    dcp::ReadObjectValue(*DcpFolderOf(out_.artifact), object));
      NXDKIT_ASSIGN(optimizer_.form, ReadNumberedForm(value).in(out_.artifact.path).on(object.key));
    }
    return OkStatus();
  }

  BoundArtifact& out_;
  const DcpTensors& known_;
  BoundOptimizer optimizer_;
  std::vector<PickleDict> options_;  // per model parameter
};

}  // namespace

Status BindDcpOptimizer(BoundArtifact& out, const DcpTensors& known) {
  return DcpBinder(out, known).Run();
}

Result<const dcp::GlobalTensor*> FindDcpTensor(const DcpTensors& known, const std::string& name) {
  const std::string plain = WithoutWrappers(name);
  for (const std::string& candidate :
       {plain, plain.substr(plain.starts_with(kModelPrefix) ? kModelPrefix.size() : 0)})
    if (const auto found = known.find(candidate); found != known.end()) return &found->second;
  if (IsStateNumber(name))
    return Unsupported(
               "the optimizer's parameters have numbers instead of names (found {}), as "
               "optimizer.state_dict() returns them",
               name)
        .hint(
            "save the result of get_optimizer_state_dict() of "
            "torch.distributed.checkpoint.state_dict, which has names; --no-optimizer leaves the "
            "optimizer's state out");
  return Unsupported("the optimizer has state for a parameter {}, which the model does not have",
                     name)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace nxdkit::kinds
