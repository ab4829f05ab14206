// Finds the boxes that meet a box, without comparing it with all of them: a tensor of a large mesh
// has thousands of chunks, and a hostile file any number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/plan/layout.h"

namespace nxdkit {

// A budget of steps for work on many boxes: far more than `boxes` boxes need that hardly overlap,
// and far less than comparing each with each.
class BoxWork {
 public:
  explicit BoxWork(size_t boxes);
  bool Take(uint64_t steps) {  // false once they are used up
    left_ -= std::min(left_, steps);
    return left_ > 0;
  }
  bool is_used_up() const { return left_ == 0; }

 private:
  uint64_t left_;
};

// A bounding volume hierarchy: halves of the boxes, halves of the halves, each with the box around
// it. Built in n log n steps; among n disjoint boxes a search visits about log n and those that it
// finds.
class BoxTree {
 public:
  // All boxes have the same rank; they must outlive the tree.
  explicit BoxTree(std::vector<const Box*> boxes);

  // The indices of the boxes that meet `box`, ascending. Incomplete once `work` is used up.
  std::vector<uint32_t> Meeting(const Box& box, BoxWork* work = nullptr) const;

 private:
  struct Node {
    Box around;
    uint32_t first;  // in order_
    uint32_t end;
    uint32_t right = 0;  // the left half is the next node; 0 for a leaf
  };

  void Build(uint32_t first, uint32_t end);

  std::vector<const Box*> boxes_;
  std::vector<uint32_t> order_;  // a node has the boxes in a range of it
  std::vector<Node> nodes_;
};

}  // namespace nxdkit
