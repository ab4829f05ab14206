#include "formats/kinds/dcp/read_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"
#include "formats/kinds/unwrap.h"
#include "formats/training/state_keys.h"

namespace nxdkit::kinds {
namespace {

constexpr std::string_view kStatePart = "state.";

using Shapes = std::unordered_map<std::string, Shape>;

// The shapes of the model's tensors, in every style.
Shapes ShapesOf(const models::Model& model) {
  const dcp::HasTensor unlaid = [](const std::string&, const Shape&) { return false; };
  Shapes shapes;
  for (const dcp::GlobalTensor& tensor : dcp::TensorsOfAnyStyle(model, unlaid))
    shapes.emplace(tensor.layout.name, tensor.shape);
  return shapes;
}

bool Knows(const Shapes& shapes, std::string_view name, const Shape& shape) {
  const auto found = shapes.find(std::string(name));
  return found != shapes.end() && found->second == shape;
}

// The prefix of most weights' names, except "model."; "" if one has nothing else.
std::string FindOuter(const dcp::Folder& folder, const Shapes& shapes) {
  std::vector<std::string> wrappers;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    const std::string key = WithoutWrappers(entry.key);
    const auto knows = [&](std::string_view name) { return Knows(shapes, name, entry.shape); };
    std::string wrapper = WrapperOf(key, knows);
    if (knows(key) || wrapper == kModelPrefix) return "";
    if (!wrapper.empty() && !key.starts_with(kOptimizerPrefix))
      wrappers.push_back(std::move(wrapper));
  }
  return MostFrequent(wrappers);
}

std::vector<std::string> KeysOf(const dcp::Folder& folder) {
  std::vector<std::string> keys;
  for (const dcp::StoredEntry& entry : folder.tensors) keys.push_back(entry.key);
  for (const dcp::ObjectEntry& object : folder.metadata.objects) keys.push_back(object.key);
  return keys;
}

// The text before "state.NAME.exp_avg" of a weight, by name or by number, and before
// "param_groups"; nullopt for other keys.
std::optional<std::string> BeforeState(const std::string& key, const Shapes& shapes) {
  if (const size_t groups = key.find("param_groups"); groups != std::string::npos)
    if (groups == 0 || key[groups - 1] == '.') return key.substr(0, groups);
  for (size_t at = key.find(kStatePart); at != std::string::npos;
       at = key.find(kStatePart, at + 1)) {
    if (at > 0 && key[at - 1] != '.') continue;
    const auto [name, what] = SplitStateKey(std::string_view(key).substr(at + kStatePart.size()));
    const bool numbered = IsStateNumber(name) && IsKeptName(what);
    const bool named = shapes.contains(name) || (name.starts_with(kModelPrefix) &&
                                                 shapes.contains(name.substr(kModelPrefix.size())));
    if (numbered || named) return key.substr(0, at);
  }
  return std::nullopt;
}

// The prefix that stands for "optimizer."; nullopt if there is none, or more than one.
std::optional<std::string> FindOptimizer(const std::vector<std::string>& keys,
                                         const Shapes& shapes) {
  std::set<std::string> found;
  for (const std::string& key : keys)
    if (std::optional<std::string> before = BeforeState(key, shapes)) found.insert(*before);
  if (found.size() != 1 || *found.begin() == kOptimizerPrefix) return std::nullopt;
  return *found.begin();
}

class Unwrapper {
 public:
  Unwrapper(const dcp::Folder& folder, const Shapes& shapes) : outer_(FindOuter(folder, shapes)) {
    std::vector<std::string> keys = KeysOf(folder);
    for (std::string& key : keys) key = KeyOf(key);
    optimizer_ = FindOptimizer(keys, shapes);
  }

  std::string KeyOf(const std::string& key) const {
    std::string plain = WithoutWrappers(key);
    if (plain.starts_with(outer_)) plain.erase(0, outer_.size());
    if (optimizer_ && IsOfOptimizer(plain)) plain.replace(0, optimizer_->size(), kOptimizerPrefix);
    return plain;
  }

  std::string Text() const {
    std::string text = "names of weights and state are taken without what is around them";
    if (!outer_.empty()) text += fmt::format(": \"{}\"", outer_);
    if (optimizer_) text += fmt::format("; \"{}\" is the optimizer", *optimizer_);
    return text;
  }

 private:
  bool IsOfOptimizer(const std::string& key) const {
    if (!key.starts_with(*optimizer_)) return false;
    const std::string_view rest = std::string_view(key).substr(optimizer_->size());
    return !optimizer_->empty() || rest.starts_with(kStatePart) || rest.starts_with("param_groups");
  }

  std::string outer_;                     // before all of the program's keys
  std::optional<std::string> optimizer_;  // stands for "optimizer."
};

}  // namespace

void UnwrapKeys(Artifact& artifact, const models::Model& model) {
  const Unwrapper unwrapper(*DcpFolderOf(artifact), ShapesOf(model));
  std::set<std::string> plain;
  bool differs = false;
  for (const std::string& key : KeysOf(*DcpFolderOf(artifact))) {
    const std::string to = unwrapper.KeyOf(key);
    differs |= to != key;
    if (!plain.insert(to).second) return;
  }
  if (!differs) return;
  auto folder = std::make_shared<dcp::Folder>(*DcpFolderOf(artifact));
  const auto shorten = [&](std::string& key) {
    std::string to = unwrapper.KeyOf(key);
    if (to != key) folder->stored_keys.emplace(to, key);
    key = std::move(to);
  };
  for (dcp::StoredEntry& entry : folder->tensors) shorten(entry.key);
  for (dcp::ObjectEntry& object : folder->metadata.objects) shorten(object.key);
  ReplaceFolder(artifact, std::move(folder));
  artifact.warnings.push_back(unwrapper.Text());
}

namespace {

class DcpObjects : public RunObjects {
 public:
  explicit DcpObjects(std::shared_ptr<const dcp::Folder> folder) : folder_(std::move(folder)) {}

  const std::string& path() const override { return folder_->path; }
  std::vector<std::string> Keys() const override {
    std::vector<std::string> keys;
    for (const dcp::ObjectEntry& object : folder_->metadata.objects) keys.push_back(object.key);
    return keys;
  }
  Result<torch::PickleValue> Read(std::string_view key) const override {
    const auto& objects = folder_->metadata.objects;
    const auto found = std::ranges::find(objects, key, &dcp::ObjectEntry::key);
    NXDKIT_CHECK(found != objects.end());
    return dcp::ReadObjectValue(*folder_, *found);
  }

 private:
  std::shared_ptr<const dcp::Folder> folder_;
};

const DcpState* StateOf(const Artifact& artifact) {
  return dynamic_cast<const DcpState*>(artifact.state.get());
}

}  // namespace

const dcp::Folder* DcpFolderOf(const Artifact& artifact) {
  const DcpState* const state = StateOf(artifact);
  return state ? state->folder.get() : nullptr;
}

std::vector<ArchiveRange> ArchivesOfDcp(const Artifact& artifact) {
  std::vector<ArchiveRange> archives;
  for (const dcp::Archive& archive : DcpFolderOf(artifact)->archives)
    archives.push_back({archive.path, archive.offset, archive.bytes});
  return archives;
}

void ReplaceFolder(Artifact& artifact, std::shared_ptr<const dcp::Folder> folder) {
  artifact.state = StateOf(artifact)->With(std::move(folder));
}

std::shared_ptr<const RunObjects> DcpObjectsOf(const Artifact& artifact) {
  return std::make_shared<DcpObjects>(StateOf(artifact)->folder);
}

}  // namespace nxdkit::kinds
