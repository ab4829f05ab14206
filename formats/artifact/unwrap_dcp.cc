#include "formats/artifact/unwrap_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/artifact/optimizer/dcp_keys.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"

namespace nxdkit::ops {
namespace {

// What programs call the optimizer's state, whose keys go on with "state." and "param_groups.".
constexpr std::string_view kOptimizerNames[] = {"optim.", "optimizers.", "optimizer_state.",
                                                "optimizer_states.0."};

using Shapes = std::unordered_map<std::string, Shape>;

// Of the model's tensors, in every style.
Shapes ShapesOf(const models::Model& model) {
  const dcp::HasTensor unlaid = [](const std::string&, const Shape&) { return false; };
  Shapes shapes;
  for (const dcp::Style style : dcp::kStyles) {
    const auto tensors = dcp::ModelTensors(model, style, unlaid);
    if (!tensors.ok()) continue;  // the style has no such model
    for (const dcp::GlobalTensor& tensor : *tensors)
      shapes.emplace(tensor.layout.name, tensor.shape);
  }
  return shapes;
}

bool Knows(const Shapes& shapes, std::string_view name, const Shape& shape) {
  const auto found = shapes.find(std::string(name));
  return found != shapes.end() && found->second == shape;
}

// What most weights have before their names, but for "model."; "" where one has nothing else.
std::string FindOuter(const dcp::Folder& folder, const Shapes& shapes) {
  std::map<std::string, size_t> counts;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    const std::string key = WithoutWrappers(entry.key);
    const auto knows = [&](std::string_view name) { return Knows(shapes, name, entry.shape); };
    const std::string wrapper = WrapperOf(key, knows);
    if (knows(key) || wrapper == kModelPrefix) return "";
    if (!wrapper.empty() && !key.starts_with(kOptimizerPrefix)) ++counts[wrapper];
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; });
  return most == counts.end() ? "" : most->first;
}

std::vector<std::string> KeysOf(const dcp::Folder& folder) {
  std::vector<std::string> keys;
  for (const dcp::StoredEntry& entry : folder.tensors) keys.push_back(entry.key);
  for (const dcp::ObjectEntry& object : folder.metadata.objects) keys.push_back(object.key);
  return keys;
}

class Unwrapper {
 public:
  Unwrapper(const dcp::Folder& folder, const Shapes& shapes) : outer_(FindOuter(folder, shapes)) {
    std::vector<std::string> keys = KeysOf(folder);
    for (std::string& key : keys) key = KeyOf(key);
    const auto has = [&](std::string_view name, std::string_view what) {
      const std::string prefix = std::string(name) + std::string(what);
      return std::ranges::any_of(keys,
                                 [&](const std::string& key) { return key.starts_with(prefix); });
    };
    const auto is_optimizer = [&](std::string_view name) {
      return has(name, "state.") || has(name, "param_groups");
    };
    if (is_optimizer(kOptimizerPrefix)) return;
    const auto named = std::ranges::find_if(kOptimizerNames, is_optimizer);
    if (named != std::end(kOptimizerNames)) optimizer_ = *named;
  }

  std::string KeyOf(const std::string& key) const {
    std::string plain = WithoutWrappers(key);
    if (plain.starts_with(outer_)) plain.erase(0, outer_.size());
    if (!optimizer_.empty() && plain.starts_with(optimizer_))
      plain.replace(0, optimizer_.size(), kOptimizerPrefix);
    return plain;
  }

  std::string Text() const {
    std::string text = "names of weights and state are taken without what is around them";
    if (!outer_.empty()) text += fmt::format(": \"{}\"", outer_);
    if (!optimizer_.empty()) text += fmt::format("; \"{}\" is the optimizer", optimizer_);
    return text;
  }

 private:
  std::string outer_;           // before all of the program's keys
  std::string_view optimizer_;  // what stands for "optimizer."
};

}  // namespace

void UnwrapKeys(Artifact& artifact, const models::Model& model) {
  const Unwrapper unwrapper(*artifact.dcp, ShapesOf(model));
  std::set<std::string> plain;
  bool differs = false;
  for (const std::string& key : KeysOf(*artifact.dcp)) {
    const std::string to = unwrapper.KeyOf(key);
    differs |= to != key;
    if (!plain.insert(to).second) return;
  }
  if (!differs) return;
  auto folder = std::make_shared<dcp::Folder>(*artifact.dcp);
  for (dcp::StoredEntry& entry : folder->tensors) entry.key = unwrapper.KeyOf(entry.key);
  for (dcp::ObjectEntry& object : folder->metadata.objects)
    object.key = unwrapper.KeyOf(object.key);
  folder->metadata.paths.clear();  // of the names that were
  artifact.dcp = std::move(folder);
  artifact.warnings.push_back(unwrapper.Text());
}

}  // namespace nxdkit::ops
