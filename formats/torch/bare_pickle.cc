#include "formats/torch/bare_pickle.h"

#include <algorithm>

#include "formats/torch/pickle_machine.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {
namespace {

// The node of the pickle's value.
Result<NodeId> Run(PickleGraph& graph, const GlobalTable& globals) {
  NXDKIT_ASSIGN(const PickleResult run, RunPickle(graph, PickleFlavor::kZip, globals));
  if (!graph.storages.empty())
    return Unsupported("the pickle names a storage of a tensor, but has none with it")
        .at(graph.storages.front().pickle_offset);
  const size_t rest = graph.pickle().size() - run.bytes;
  if (rest != 0) return Corrupt("{} bytes after the end of the pickle", rest).at(run.bytes);
  return run.root;
}

}  // namespace

Result<PickleValue> ReadBarePickle(std::string_view pickle, const GlobalTable& globals) {
  PickleGraph graph(pickle);
  NXDKIT_ASSIGN(const NodeId root, Run(graph, globals));
  return ToValue(graph, root);
}

Result<std::unique_ptr<BareRecord>> BareRecord::Read(std::string_view pickle,
                                                     const GlobalTable& globals,
                                                     std::span<const char* const> classes) {
  std::unique_ptr<BareRecord> out(new BareRecord(pickle));
  PickleGraph& graph = out->graph_;
  NXDKIT_ASSIGN(const NodeId root, Run(graph, globals));
  const bool is_record = graph.kind(root) == NodeKind::kRecord;
  const std::string name = is_record ? graph.AsRecord(root).global->name : "no record";
  if (std::ranges::find(classes, name) == classes.end())
    return Corrupt("a value is {}, expected a {}", name, classes.front());
  const PickleGraph::RecordParts& parts = graph.AsRecord(root);
  if (!graph.TupleItems(parts.arguments).empty()) return Corrupt("a {} with arguments", name);
  if (!parts.state || graph.kind(*parts.state) != NodeKind::kDict)
    return Corrupt("a {} whose state is not a dict", name);
  out->state_ = *parts.state;
  out->reader_ = std::make_unique<ValueReader>(graph);
  return out;
}

std::optional<NodeId> BareRecord::Find(std::string_view attribute) const {
  const std::vector<NodeId>& items = graph_.Items(state_);
  for (size_t i = 0; i < items.size(); i += 2)
    if (graph_.kind(items[i]) == NodeKind::kString && graph_.AsText(items[i]) == attribute)
      return items[i + 1];
  return std::nullopt;
}

bool BareRecord::Has(std::string_view attribute) const {
  const auto node = Find(attribute);
  return node && graph_.kind(*node) != NodeKind::kNone;
}

Result<PickleValue> BareRecord::Value(std::string_view attribute) {
  const auto node = Find(attribute);
  return node ? reader_->Read(*node) : PickleValue{};
}

Status BareRecord::ForEach(std::string_view attribute, const ValueReader::OnItem& f) {
  const auto node = Find(attribute);
  const NodeKind kind = node ? graph_.kind(*node) : NodeKind::kNone;
  if (kind != NodeKind::kDict && kind != NodeKind::kOrderedDict)
    return Corrupt("{} is missing, or not a dict", attribute);
  return reader_->ForEach(*node, f);
}

}  // namespace nxdkit::torch
