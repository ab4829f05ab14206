#include "formats/artifact/optimizer/bind_dcp_optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "formats/artifact/optimizer/numbered_form.h"
#include "formats/dcp/folder.h"
#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

using Kind = OptimizerEntry::Kind;
using torch::PickleDict;

// "NAME.exp_avg" in two, at the last dot.
std::pair<std::string, std::string> SplitKey(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {std::string(key), ""};
  return {std::string(key.substr(0, dot)), std::string(key.substr(dot + 1))};
}

class DcpBinder {
 public:
  DcpBinder(BoundArtifact& out, const DcpTensors& known) : out_(out), known_(known) {}

  Status Run() {
    const size_t params = out_.params.size();
    optimizer_.style = nxd::OptimizerStyle::kNamed;
    optimizer_.entries.resize(params);
    optimizer_.masters.resize(params);
    optimizer_.group_of.resize(params, 0);
    options_.resize(params);
    bool any = false;
    for (const dcp::StoredEntry& entry : out_.artifact.dcp->tensors) {
      if (!entry.key.starts_with(kOptimizerState)) continue;
      any = true;
      NXDKIT_TRY(AddState(entry).in(out_.artifact.path).on(entry.key));
    }
    if (!any) return OkStatus();
    for (const dcp::ObjectEntry& object : out_.artifact.dcp->metadata.objects)
      if (object.key.starts_with(kOptimizerGroups)) NXDKIT_TRY(AddOption(object));
    NXDKIT_TRY(MakeGroups());
    NXDKIT_TRY(ReadRecord());
    out_.optimizer = std::move(optimizer_);
    return OkStatus();
  }

 private:
  Result<const dcp::GlobalTensor*> Find(const std::string& name) const {
    for (const std::string& candidate : {name, name.substr(name.starts_with("model.") ? 6 : 0)})
      if (const auto found = known_.find(candidate); found != known_.end()) return &found->second;
    return Unsupported("the optimizer keeps something of a parameter {}, which the model lacks",
                       name)
        .hint("--no-optimizer leaves the optimizer's state out");
  }

  Status AddState(const dcp::StoredEntry& entry) {
    const auto [name, what] = SplitKey(std::string_view(entry.key).substr(kOptimizerState.size()));
    NXDKIT_ASSIGN(const dcp::GlobalTensor* tensor, Find(name));
    if (entry.shape.empty()) {
      for (const uint32_t i : ParamsOf(tensor->layout)) AddScalar(entry, what, i);
      return OkStatus();
    }
    if (entry.shape != tensor->shape)
      return Corrupt("shape {} found, the parameter has {}", ShapeText(entry.shape),
                     ShapeText(tensor->shape));
    std::map<uint32_t, uint32_t> numbers;  // of what is kept, by the parameter
    for (const uint32_t i : ParamsOf(tensor->layout))
      numbers[i] = Number(i, what, Kind::kLike, entry.dtype, out_.params[i].shape);
    for (const dcp::StoredChunk& chunk : entry.chunks) {
      TensorLayout layout = dcp::CutChunk(*tensor, chunk.box);
      layout.name = entry.key;
      layout.file = chunk.file;
      for (Piece& piece : layout.pieces) piece.param = numbers.at(piece.param);
      StoredTensor stored = dcp::SeenAs(chunk.stored, layout.shape);
      out_.bound.Add(std::move(layout), std::move(stored));
    }
    return OkStatus();
  }

  // One step for all that the tensor holds: it is that of each of them.
  void AddScalar(const dcp::StoredEntry& entry, const std::string& what, uint32_t i) {
    const uint32_t number = Number(i, what, Kind::kScalar, entry.dtype, {});
    const dcp::StoredChunk& chunk = entry.chunks.front();
    out_.bound.Add(WholeTensor(entry.key, chunk.file, number, {}), chunk.stored);
  }

  // The logical parameter that is kept of model parameter `i` under a name.
  uint32_t Number(uint32_t i, const std::string& what, Kind kind, Dtype dtype, Shape shape) {
    if (!optimizer_.entries[i]) optimizer_.entries[i].emplace();
    LogicalTensor logical = out_.params[i];
    logical.name += "/" + what;
    if (kind == Kind::kScalar) logical = {logical.name, {}, 0, 0};
    logical.shape = std::move(shape);
    const auto number = static_cast<uint32_t>(out_.params.size());
    out_.params.push_back(std::move(logical));
    optimizer_.entries[i]->push_back({what, kind, number, out_.bound.stored.size(), dtype, {}, ""});
    return number;
  }

  Status AddOption(const dcp::ObjectEntry& object) {
    const auto [name, option] =
        SplitKey(std::string_view(object.key).substr(kOptimizerGroups.size()));
    NXDKIT_ASSIGN(const dcp::GlobalTensor* tensor,
                  Find(name).in(out_.artifact.path).on(object.key));
    NXDKIT_ASSIGN(const torch::PickleValue value, dcp::ReadObjectValue(*out_.artifact.dcp, object));
    for (const uint32_t i : ParamsOf(tensor->layout)) options_[i].push_back({{option}, value});
    return OkStatus();
  }

  // Parameters with the same options are a group, in whatever order the ranks have saved them.
  Status MakeGroups() {
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < options_.size(); ++i) {
      if (options_[i].empty()) continue;  // not trained
      std::ranges::sort(options_[i], {}, [](const auto& option) { return *option.first.string(); });
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

  // How the tag had it that the checkpoint was made of.
  Status ReadRecord() {
    for (const dcp::ObjectEntry& object : out_.artifact.dcp->metadata.objects) {
      if (object.key != kNumberedFormKey) continue;
      NXDKIT_ASSIGN(const torch::PickleValue value,
                    dcp::ReadObjectValue(*out_.artifact.dcp, object));
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

}  // namespace nxdkit::ops
