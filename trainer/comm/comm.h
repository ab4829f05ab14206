// The ranks of a run as threads of one process or of several, and the exchange of bytes between
// them: a communicator knows nothing of numbers. trainer/comm/reduce.h adds them up, in one fixed
// order, so that a layout gives the same bits in every run, on one machine or many.
//
// A ThreadWorld runs the ranks; Split makes the groups of a mesh from its communicators. A
// communicator belongs to one rank and is used by that rank's thread only. Every call is
// collective: all ranks of the group make the same calls in the same order with the same sizes;
// other sizes are kInternal. An error of one rank reaches the others as kInterrupted: see
// ThreadWorld::Run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// The most ranks in one of several processes: the channels are numbered for so many.
inline constexpr int kMostRanksOfProcess = 512;

class Comm {
 public:
  int rank() const { return rank_; }
  int size() const;
  bool is_local() const;  // all ranks are in this process

  Status Barrier();
  // out = [rank 0's in, rank 1's in, ...]; out.size() == in.size() * size().
  Status AllGather(std::span<const std::byte> in, std::span<std::byte> out);
  // Part r of `in` goes to rank r; part r of `out` comes from rank r. Both have size() equal parts.
  Status AllToAll(std::span<const std::byte> in, std::span<std::byte> out);
  // in[r] goes to rank r; out[r] comes from rank r, whose in[rank()] has its size. Sizes may differ
  // between ranks, and in[r] and out[r] may be the same memory.
  Status Exchange(std::span<const std::span<const std::byte>> in,
                  std::span<const std::span<std::byte>> out);
  // The group of all ranks with the same color, numbered by key, then by rank here. Background: for
  // a second thread of this rank that communicates while the first one does so on other
  // communicators; while waiting for other processes it yields the core.
  Result<std::unique_ptr<Comm>> Split(int color, int key, bool background = false);

 private:
  friend class ThreadWorld;
  class Group;
  struct World;
  Comm(std::shared_ptr<Group> group, int rank, World& world);
  Status ExchangeRemote(std::span<const std::span<const std::byte>> in,
                        std::span<const std::span<std::byte>> out);
  template <typename Take>
  Status Post(std::span<const std::byte> mine, const Take& take);

  const std::shared_ptr<Group> group_;
  const int rank_;
  World* world_;
};

// Persistent threads, one per rank, each with its communicator of the world.
class ThreadWorld {
 public:
  // `threads_per_rank`: used by the loops and matrix products of each rank
  // (trainer/base/parallel.h).
  explicit ThreadWorld(int ranks, int threads_per_rank = 1);
  // A world over the processes of a transport, which must outlive it: the number of ranks of each
  // process, possibly 0; the ranks of process p follow those of process p - 1. All processes create
  // their worlds, and call Run, in the same order.
  ThreadWorld(const std::vector<int>& ranks_of_process, int threads_per_rank, Transport* transport);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  // Runs `body` on every rank and waits for all. When a body returns an error, collectives in which
  // other ranks wait (or which they enter later) fail with kInterrupted instead of waiting forever,
  // and so do all later calls on this world. Returns the error of the lowest rank that is not such
  // an echo; kLimit when memory ran out. Called from one thread at a time. The communicators live
  // as long as the world. Failures of other processes are reported by the heartbeat
  // (trainer/comm/heartbeat.h), not here; Transport bounds the wait.
  Status Run(const std::function<Status(Comm& world)>& body);

 private:
  std::unique_ptr<Comm::World> world_;
};

// The TP x DP mesh: world rank = dp_rank * tp + tp_rank, so that the ranks of a tensor-parallel
// group are neighbours.
struct Mesh {
  std::unique_ptr<Comm> tp;
  std::unique_ptr<Comm> dp;
  std::unique_ptr<Comm> dp_background;  // a second group of dp, for a background thread
  int tp_rank() const { return tp->rank(); }
  int dp_rank() const { return dp->rank(); }

  // Collective. kUsage when the world's size is not a multiple of `tp_size`.
  static Result<Mesh> Make(Comm& world, int tp_size);
};

}  // namespace nxdkit::trainer
