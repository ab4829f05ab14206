#include "lib/plan/box_tree.h"

#include <numeric>

namespace nxdkit {
namespace {

constexpr uint32_t kLeaf = 8;

void Surround(Box& around, const Box& box) {
  for (size_t d = 0; d < box.lo.size(); ++d) {
    const int64_t end = std::max(around.lo[d] + around.extent[d], box.lo[d] + box.extent[d]);
    around.lo[d] = std::min(around.lo[d], box.lo[d]);
    around.extent[d] = end - around.lo[d];
  }
}

}  // namespace

// A look-up takes some 100 steps where boxes hardly overlap.
BoxWork::BoxWork(size_t boxes) : left_(uint64_t{1 << 20} + uint64_t{boxes} * 1024) {}

BoxTree::BoxTree(std::vector<const Box*> boxes) : boxes_(std::move(boxes)), order_(boxes_.size()) {
  std::iota(order_.begin(), order_.end(), uint32_t{0});
  if (!boxes_.empty()) Build(0, static_cast<uint32_t>(boxes_.size()));
}

// The recursion is only as deep as the tree: each level halves the range.
void BoxTree::Build(uint32_t first, uint32_t end) {
  Node node{*boxes_[order_[first]], first, end};
  const Box begins = {node.around.lo, Shape(node.around.lo.size(), 0)};
  Box places = begins;  // around the places where boxes begin
  for (uint32_t i = first; i < end; ++i) {
    const Box& box = *boxes_[order_[i]];
    Surround(node.around, box);
    Surround(places, {box.lo, begins.extent});
  }
  const uint32_t self = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(std::move(node));
  if (end - first <= kLeaf || places.lo.empty()) return;
  const auto widest = std::ranges::max_element(places.extent) - places.extent.begin();
  const uint32_t middle = first + (end - first) / 2;
  std::nth_element(order_.begin() + first, order_.begin() + middle, order_.begin() + end,
                   [&](uint32_t a, uint32_t b) {
                     return boxes_[a]->lo[static_cast<size_t>(widest)] <
                            boxes_[b]->lo[static_cast<size_t>(widest)];
                   });
  Build(first, middle);
  nodes_[self].right = static_cast<uint32_t>(nodes_.size());
  Build(middle, end);
}

std::vector<uint32_t> BoxTree::Meeting(const Box& box, BoxWork* work) const {
  std::vector<uint32_t> found;
  std::vector<uint32_t> open;
  if (!nodes_.empty()) open.push_back(0);
  while (!open.empty()) {
    const uint32_t index = open.back();
    const Node& node = nodes_[index];
    open.pop_back();
    if (work && !work->Take(1)) break;
    if (!Meet(node.around, box)) continue;
    if (node.right != 0) {
      open.push_back(node.right);
      open.push_back(index + 1);
      continue;
    }
    for (uint32_t i = node.first; i < node.end; ++i)
      if (Meet(*boxes_[order_[i]], box)) found.push_back(order_[i]);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace nxdkit
