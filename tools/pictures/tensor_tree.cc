#include "tools/pictures/tensor_tree.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/page/page.h"
#include "tools/pictures/page_names.h"

namespace nxdkit::tool {
namespace {

using artifact::Slice;
using artifact::SliceEnd;
using artifact::SliceFill;
using artifact::TensorSlices;

constexpr size_t kDeepest = 24;  // parts of a name; the rest is one part

// --- patterns

std::string NumbersText(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string BoxCode(const Box& box, const Shape& shape) {
  if (box == WholeBox(shape)) return "0";
  std::vector<int64_t> numbers = box.lo;
  numbers.insert(numbers.end(), box.extent.begin(), box.extent.end());
  return NumbersText(numbers);
}

// "[a,b]" of the texts of a list's items.
template <typename List, typename Text>
std::string ArrayText(const List& list, const Text& text) {
  std::string out = "[";
  for (const auto& item : list) {
    if (out.size() > 1) out += ',';
    out += text(item);
  }
  return out + "]";
}

std::string EndsText(const std::vector<SliceEnd>& ends) {
  return ArrayText(ends, [](const SliceEnd& end) {
    return fmt::format("[\"{}\",{}]", Name(end.dtype), NumbersText(end.shape));
  });
}

std::string PatternText(const TreeTensor& tensor, size_t group) {
  const TensorSlices& slices = *tensor.slices;
  const auto param = [](const LogicalTensor& each) {
    return fmt::format("[{},{},{}]", NumbersText(each.shape), each.head_rows, each.head_dim);
  };
  const auto copy = [&](const Slice& slice) {
    return fmt::format("[{},{},{},{},{},{}]", slice.from, slice.to,
                       BoxCode(slice.source, slices.sources[slice.from].shape),
                       BoxCode(slice.target, slices.targets[slice.to].shape), slice.param,
                       BoxCode(slice.logical, slices.params[slice.param].shape));
  };
  const auto fill = [&](const SliceFill& each) {
    return fmt::format("[{},{},{},{}]", each.to,
                       BoxCode(each.target, slices.targets[each.to].shape), each.value,
                       each.is_padding ? 1 : 0);
  };
  return fmt::format(R"({{"b":{},"g":{},"s":{},"t":{},"p":{},"c":{},"f":{}}})", tensor.bytes, group,
                     EndsText(slices.sources), EndsText(slices.targets),
                     ArrayText(slices.params, param), ArrayText(slices.slices, copy),
                     ArrayText(slices.fills, fill));
}

// The same without parts: the first of the ends alone.
std::string BriefText(const TreeTensor& tensor, size_t group) {
  const auto first = [](const std::vector<SliceEnd>& ends) {
    return EndsText(ends.empty() ? ends : std::vector{ends[0]});
  };
  return fmt::format(R"({{"b":{},"g":{},"s":{},"t":{},"p":[],"c":[],"f":[],"n":{}}})", tensor.bytes,
                     group, first(tensor.slices->sources), first(tensor.slices->targets),
                     tensor.slices->slices.size() + tensor.slices->fills.size());
}

std::string PlaceText(const TensorSlices& slices, bool brief) {
  const auto files = [&](const std::vector<SliceEnd>& ends) {
    std::vector<int64_t> numbers;
    for (const SliceEnd& end : ends) numbers.push_back(end.file);
    if (brief && numbers.size() > 1) numbers.resize(1);
    return NumbersText(numbers);
  };
  return fmt::format("[{},{}]", files(slices.sources), files(slices.targets));
}

// --- names

// A name next to the leaf's, as a code.
std::string NameCode(const std::string& name, const std::string& leaf) {
  if (name == leaf) return "0";
  const auto [at, rest] = std::ranges::mismatch(leaf, name);
  // Characters are counted where all are one byte.
  const bool ascii = std::ranges::all_of(leaf, [](char c) { return (c & 0x80) == 0; });
  const auto shared = ascii ? static_cast<size_t>(at - leaf.begin()) : 0;
  return fmt::format("[{},{}]", shared, Json(name.substr(shared)).dump());
}

class Runs {
 public:
  void Add(std::string code) {
    if (!runs_.empty() && runs_.back().second == code)
      ++runs_.back().first;
    else
      runs_.emplace_back(1, std::move(code));
  }
  std::string Text() && {
    if (!runs_.empty() && runs_.back().second == "0") runs_.pop_back();
    return ArrayText(runs_,
                     [](const auto& run) { return fmt::format("[{},{}]", run.first, run.second); });
  }

 private:
  std::vector<std::pair<size_t, std::string>> runs_;
};

std::string NamesText(const TensorSlices& slices, const std::string& leaf) {
  Runs runs;
  const auto code = [&](const std::string& name) { return NameCode(ShownName(name), leaf); };
  for (const SliceEnd& end : slices.sources) runs.Add(code(end.name));
  for (const SliceEnd& end : slices.targets)
    runs.Add(end.name == slices.name ? "0" : code(end.name));
  for (size_t i = 0; i < slices.params.size(); ++i) {
    const bool same = i < slices.sources.size() && slices.params[i].name == slices.sources[i].name;
    const std::string& name = slices.params[i].name;
    runs.Add(name == slices.name ? "0" : same ? "1" : code(name));
  }
  return std::move(runs).Text();
}

// --- the tree

struct Node {
  std::string name;
  std::optional<std::string> leaf;  // the rest of a leaf's text; nullopt: inner
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

void Insert(Node& root, const std::string& name, std::string leaf) {
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
std::string NodeText(const Node& node, const std::string& before) {
  const std::string name = before + node.name;
  if (node.leaf) return fmt::format("[{}{}]", Json(name).dump(), *node.leaf);
  if (node.children.size() == 1) return NodeText(*node.children[0], name + ".");
  return fmt::format("[{},{}]", Json(name).dump(), ArrayText(node.children, [](const auto& child) {
                       return NodeText(*child, "");
                     }));
}

// Texts that occur once in the data, each with its number there.
class Table {
 public:
  size_t NumberOf(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(&at->first);
    return at->second;
  }
  // The bytes that adding it would take.
  uint64_t CostOf(const std::string& text) const {
    return numbers_.contains(text) ? 0 : page::DataBytes(text) + 1;
  }
  std::string Text() const {
    return ArrayText(texts_, [](const std::string* text) { return *text; });
  }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<const std::string*> texts_;
};

enum class Level : uint8_t { kOther, kBrief, kFull };

class Builder {
 public:
  explicit Builder(const std::vector<TreeTensor>& tensors) : tensors_(tensors) {}

  // The estimated cost of a tensor decides its level; `max_bytes` is what all may take.
  std::string Text(uint64_t max_bytes) {
    const std::vector<Level> levels = Decide(max_bytes);
    Node root;
    Table patterns, places;
    size_t brief = 0, others = 0;
    uint64_t other_bytes = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const TreeTensor& tensor = tensors_[i];
      brief += levels[i] == Level::kBrief;
      others += levels[i] == Level::kOther;
      if (levels[i] == Level::kOther) {
        other_bytes += tensor.bytes;
        continue;
      }
      const std::string name = ShownName(tensor.slices->name);
      const bool full = levels[i] == Level::kFull;
      std::string leaf = fmt::format(",{},{}", patterns.NumberOf(PatternOf(tensor, full)),
                                     places.NumberOf(PlaceText(*tensor.slices, !full)));
      if (const std::string names = NamesText(*tensor.slices, name); full && names != "[]")
        leaf += "," + names;
      Insert(root, name, std::move(leaf));
    }
    const auto node = [](const auto& child) { return NodeText(*child, ""); };
    return fmt::format(
        R"("groups":{},"patterns":{},"places":{},"tree":{},"brief":{},"others":[{},{}])",
        ArrayText(groups_, [](std::string_view group) { return Json(group).dump(); }),
        patterns.Text(), places.Text(), ArrayText(root.children, node), brief, others, other_bytes);
  }

 private:
  size_t GroupOf(std::string_view group) {
    const auto at = std::ranges::find(groups_, group);
    if (at != groups_.end()) return static_cast<size_t>(at - groups_.begin());
    groups_.emplace_back(group);
    return groups_.size() - 1;
  }

  std::string PatternOf(const TreeTensor& tensor, bool full) {
    const size_t group = GroupOf(tensor.group);
    return full ? PatternText(tensor, group) : BriefText(tensor, group);
  }

  // The largest tensors first, whatever one of them takes: parts for those that fit in four fifths.
  std::vector<Level> Decide(uint64_t max_bytes) {
    std::vector<size_t> largest(tensors_.size());
    std::iota(largest.begin(), largest.end(), size_t{0});
    std::ranges::stable_sort(largest, std::ranges::greater(),
                             [&](size_t i) { return tensors_[i].bytes; });
    std::vector<Level> levels(tensors_.size(), Level::kOther);
    Table patterns, places;
    uint64_t used = 0;
    for (const size_t i : largest) {
      const TreeTensor& tensor = tensors_[i];
      const std::string name = ShownName(tensor.slices->name);
      for (const Level level : {Level::kFull, Level::kBrief}) {
        const bool full = level == Level::kFull;
        const std::string pattern = PatternOf(tensor, full);
        const std::string place = PlaceText(*tensor.slices, !full);
        uint64_t cost = patterns.CostOf(pattern) + places.CostOf(place) +
                        page::DataBytes(Json(name).dump()) / 2 + 12;  // its parents are shared
        if (full) cost += page::DataBytes(NamesText(*tensor.slices, name));
        if (used + cost > (full ? max_bytes / 5 * 4 : max_bytes)) continue;
        used += cost;
        patterns.NumberOf(pattern);
        places.NumberOf(place);
        levels[i] = level;
        break;
      }
    }
    return levels;
  }

  const std::vector<TreeTensor>& tensors_;
  std::vector<std::string_view> groups_;
};

}  // namespace

std::string TreeMembers(const std::vector<TreeTensor>& tensors, uint64_t max_bytes) {
  // The cost of a name depends on the names around it, and is only estimated.
  uint64_t room = max_bytes;
  for (;;) {
    std::string text = Builder(tensors).Text(room);
    if (page::DataBytes(text) <= max_bytes || room == 0) return text;
    room = room / 3 * 2;
  }
}

}  // namespace nxdkit::tool
