// Moving bytes between the ranks of a run: a communicator knows nothing of numbers. Sums are made
// by trainer/comm/reduce.h, in one fixed order, so that a layout gives the same bits on every
// engine and in every run.
//
// An engine (threads of one process today) makes a world; Split makes the groups of a mesh from it.
// A communicator belongs to one rank and is used by that rank's thread only. Every call is
// collective: all ranks of the group make the same calls in the same order with the same sizes.
// An error of one rank reaches the others as kInterrupted: see ThreadWorld.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "lib/base/error.h"

namespace nxdkit::trainer {

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual Status Barrier() = 0;
  // `bytes` of rank `root` reach every rank.
  virtual Status Broadcast(std::span<std::byte> bytes, int root) = 0;
  // out = [rank 0's in, rank 1's in, ...]; out.size() == in.size() * size().
  virtual Status AllGather(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  // Part r of `in` goes to rank r; part r of `out` came from rank r. Both have size() equal parts.
  virtual Status AllToAll(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  // The group of all ranks with the same color, numbered by key, then by rank here.
  virtual Result<std::unique_ptr<Comm>> Split(int color, int key) = 0;
};

}  // namespace nxdkit::trainer
