// Which of many boxes meet a box, without comparing it with all of them: a tensor of a large mesh
// has thousands of chunks, and a hostile file as many as it likes.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/plan/layout.h"

namespace nxdkit {

// A bounding volume hierarchy: halves of the boxes, halves of the halves, each with the box around
// it. Built in n log n steps; of n disjoint boxes a search visits about log n and those that it
// finds.
class BoxTree {
 public:
  // All of one rank; they must outlive the tree.
  explicit BoxTree(std::vector<const Box*> boxes);

  // The indices of those that meet `box`, ascending.
  std::vector<uint32_t> Meeting(const Box& box) const;

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
