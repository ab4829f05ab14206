// Which of many boxes meet a box, without comparing it with all of them: a tensor of a large mesh
// has thousands of chunks, and a hostile file as many as it likes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/plan/layout.h"

namespace nxdkit {

// The steps that work on many boxes may take in all: far more than `boxes` of them need that hardly
// overlap, and far less than each of them with each.
class BoxWork {
 public:
  explicit BoxWork(size_t boxes);
  bool Take(uint64_t steps) {  // false from when they are used up
    left_ -= std::min(left_, steps);
    return left_ > 0;
  }
  bool is_used_up() const { return left_ == 0; }

 private:
  uint64_t left_;
};

// A bounding volume hierarchy: halves of the boxes, halves of the halves, each with the box around
// it. Built in n log n steps; of n disjoint boxes a search visits about log n and those that it
// finds.
class BoxTree {
 public:
  // All of one rank; they must outlive the tree.
  explicit BoxTree(std::vector<const Box*> boxes);

  // The indices of those that meet `box`, ascending. Not all of them once `work` is used up.
  std::vector<uint32_t> Meeting(const Box& box, BoxWork* work = nullptr) const;

 private:
  struct Node {
    Box around;
    uint32_t first;  // of order_
    uint32_t end;
    uint32_t right = 0;  // the left half is the next node; 0 for a leaf
  };

  void Build(uint32_t first, uint32_t end);

  std::vector<const Box*> boxes_;
  std::vector<uint32_t> order_;  // a node has the boxes of a range of it
  std::vector<Node> nodes_;
};

}  // namespace nxdkit
