#include "tools/pictures/tensor_tree.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

using artifact::Slice;
using artifact::SliceEnd;
using artifact::SliceFill;
using artifact::TensorSlices;

constexpr size_t kDeepest = 24;  // parts of a name; the rest is one part

Json BoxJson(const Box& box, const Shape& shape) {
  if (box == WholeBox(shape)) return 0;
  Json json = box.lo;
  for (const int64_t extent : box.extent) json.push_back(extent);
  return json;
}

Json EndsJson(const std::vector<SliceEnd>& ends) {
  Json json = Json::array();
  for (const SliceEnd& end : ends) json.push_back({end.file, Name(end.dtype), end.shape});
  return json;
}

Json PatternJson(const TreeTensor& tensor, size_t group) {
  const TensorSlices& slices = *tensor.slices;
  Json params = Json::array(), copies = Json::array(), fills = Json::array();
  for (const LogicalTensor& param : slices.params)
    params.push_back({param.shape, param.head_rows, param.head_dim});
  for (const Slice& slice : slices.slices)
    copies.push_back({slice.from, slice.to, BoxJson(slice.source, slices.sources[slice.from].shape),
                      BoxJson(slice.target, slices.targets[slice.to].shape), slice.param,
                      BoxJson(slice.logical, slices.params[slice.param].shape)});
  for (const SliceFill& fill : slices.fills)
    fills.push_back({fill.to, BoxJson(fill.target, slices.targets[fill.to].shape), fill.value});
  return {{"b", tensor.bytes},
          {"g", group},
          {"s", EndsJson(slices.sources)},
          {"t", EndsJson(slices.targets)},
          {"p", std::move(params)},
          {"c", std::move(copies)},
          {"f", std::move(fills)}};
}

// A name beside the leaf's: 0 if it is the same.
Json NameJson(const std::string& name, const std::string& leaf) {
  if (name == leaf) return 0;
  size_t shared = 0;
  while (shared < name.size() && shared < leaf.size() && name[shared] == leaf[shared]) ++shared;
  // Characters are counted where all are one byte.
  if (std::ranges::any_of(leaf, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    shared = 0;
  return {shared, name.substr(shared)};
}

// The names of all ends that differ from the leaf's; [] if none does.
Json NamesJson(const TensorSlices& slices, const std::string& leaf) {
  Json json = Json::array();
  size_t last = 0;
  const auto add = [&](const std::string& name) {
    json.push_back(NameJson(EscapeControl(name), leaf));
    if (json.back() != 0) last = json.size();
  };
  for (const SliceEnd& end : slices.sources) add(end.name);
  for (const SliceEnd& end : slices.targets) add(end.name);
  for (const LogicalTensor& param : slices.params) add(param.name);
  json.erase(json.begin() + static_cast<std::ptrdiff_t>(last), json.end());
  return json;
}

struct Node {
  std::string name;
  Json leaf;  // null: inner
  std::vector<std::unique_ptr<Node>> children;
  std::unordered_map<std::string, Node*> by_name;  // the inner ones

  Node& Inner(const std::string& part) {
    Node*& node = by_name[part];
    if (!node) {
      children.push_back(std::make_unique<Node>());
      node = children.back().get();
      node->name = part;
    }
    return *node;
  }
};

void Insert(Node& root, const std::string& name, Json leaf) {
  const std::vector<std::string_view> parts = Split(name, '.');
  const size_t inner = std::min(parts.size() - 1, kDeepest);
  Node* at = &root;
  size_t used = 0;
  for (size_t i = 0; i < inner; ++i) {
    at = &at->Inner(std::string(parts[i]));
    used += parts[i].size() + 1;
  }
  at->children.push_back(std::make_unique<Node>());
  at->children.back()->name = name.substr(used);
  at->children.back()->leaf = std::move(leaf);
}

// A node with one child is one with it: "self_attn.o_proj.weight". At most kDeepest calls deep.
Json NodeJson(Node& node, const std::string& before) {
  const std::string name = before + node.name;
  if (!node.leaf.is_null()) {
    node.leaf[0] = name;
    return std::move(node.leaf);
  }
  if (node.children.size() == 1) return NodeJson(*node.children[0], name + ".");
  Json children = Json::array();
  for (const auto& child : node.children) children.push_back(NodeJson(*child, ""));
  return {name, std::move(children)};
}

class Builder {
 public:
  void Add(const TreeTensor& tensor) {
    const std::string name = EscapeControl(tensor.slices->name);
    Json leaf = {"", PatternOf(tensor)};
    if (Json names = NamesJson(*tensor.slices, name); !names.empty())
      leaf.push_back(std::move(names));
    used_ += name.size() / 2 + leaf.dump().size() + 8;  // its parents are shared
    Insert(root_, name, std::move(leaf));
  }

  uint64_t used() const { return used_; }

  Json Take(size_t left_out) {
    Json tree = Json::array();
    for (const auto& child : root_.children) tree.push_back(NodeJson(*child, ""));
    return {{"groups", groups_},
            {"patterns", std::move(patterns_)},
            {"tree", std::move(tree)},
            {"left_out", left_out}};
  }

 private:
  size_t GroupOf(std::string_view group) {
    const auto at = std::ranges::find(groups_, group);
    if (at != groups_.end()) return static_cast<size_t>(at - groups_.begin());
    groups_.emplace_back(group);
    return groups_.size() - 1;
  }

  size_t PatternOf(const TreeTensor& tensor) {
    Json pattern = PatternJson(tensor, GroupOf(tensor.group));
    const std::string text = pattern.dump();
    const auto [at, is_new] = numbers_.try_emplace(text, patterns_.size());
    if (is_new) {
      used_ += text.size();
      patterns_.push_back(std::move(pattern));
    }
    return at->second;
  }

  Node root_;
  std::vector<std::string> groups_;
  Json patterns_ = Json::array();
  std::unordered_map<std::string, size_t> numbers_;
  uint64_t used_ = 0;
};

}  // namespace

Json TensorTree(const std::vector<TreeTensor>& tensors, uint64_t max_bytes) {
  std::vector<size_t> largest(tensors.size());
  std::iota(largest.begin(), largest.end(), size_t{0});
  std::ranges::stable_sort(largest, std::ranges::greater(),
                           [&](size_t i) { return tensors[i].bytes; });
  // A first pass finds how many fit; the second keeps the order of the model.
  Builder trial;
  size_t kept = 0;
  while (kept < largest.size() && trial.used() < max_bytes) trial.Add(tensors[largest[kept++]]);
  if (trial.used() > max_bytes && kept > 0) --kept;
  largest.resize(kept);
  std::ranges::sort(largest);
  Builder builder;
  for (const size_t i : largest) builder.Add(tensors[i]);
  return builder.Take(tensors.size() - kept);
}

}  // namespace nxdkit::tool
