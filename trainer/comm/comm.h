// The ranks of a run as threads of one process or of several, and bytes between them: a
// communicator knows nothing of numbers. Sums are made by trainer/comm/reduce.h, in one fixed
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

// Of one process of several: so many of them have channels of their own.
inline constexpr int kMostRanksOfProcess = 512;

class Comm {
 public:
  int rank() const { return rank_; }
  int size() const;
  bool is_local() const;  // all ranks are in this process

  Status Barrier();
  // out = [rank 0's in, rank 1's in, ...]; out.size() == in.size() * size().
  Status AllGather(std::span<const std::byte> in, std::span<std::byte> out);
  // Part r of `in` goes to rank r; part r of `out` came from rank r. Both have size() equal parts.
  Status AllToAll(std::span<const std::byte> in, std::span<std::byte> out);
  // in[r] goes to rank r; out[r] came from rank r, whose in[rank()] has its size. Sizes differ from
  // rank to rank, and what is given and what is taken may be one place.
  Status Exchange(std::span<const std::span<const std::byte>> in,
                  std::span<const std::span<std::byte>> out);
  // The group of all ranks with the same color, numbered by key, then by rank here. In the
  // background: for a thread of this rank's own that communicates while its first one does so too,
  // on other communicators; where it waits for other processes it leaves the core to others.
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

// Threads that stay, one per rank, each with its communicator of the world.
class ThreadWorld {
 public:
  // `threads_per_rank`: for the loops and products of each rank (trainer/base/parallel.h).
  explicit ThreadWorld(int ranks, int threads_per_rank = 1);
  // Over the processes of a transport, which must outlive it: how many ranks each has, or none;
  // those of process p follow those of process p - 1. All processes make their worlds, and call
  // Run, in the same order.
  ThreadWorld(const std::vector<int>& ranks_of_process, int threads_per_rank, Transport* transport);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  // Runs `body` on every rank and waits for all. When a body returns an error, collectives that
  // other ranks wait in (or enter later) fail with kInterrupted instead of waiting forever, and
  // so does everything that this world is asked afterwards. Returns the error of the lowest rank
  // that is not such an echo; kLimit where memory ran out. Called from one thread at a time. The
  // communicators live as long as the world. What fails in another process is not told here: that
  // is the heartbeats' (trainer/comm/heartbeat.h), and Transport bounds the wait.
  Status Run(const std::function<Status(Comm& world)>& body);

 private:
  std::unique_ptr<Comm::World> world_;
};

// The TP x DP mesh: world rank = dp_rank * tp + tp_rank, so that the ranks of a tensor-parallel
// group are neighbours.
struct Mesh {
  std::unique_ptr<Comm> tp;
  std::unique_ptr<Comm> dp;
  std::unique_ptr<Comm> dp_background;  // the group of dp once more, for a thread beside
  int tp_rank() const { return tp->rank(); }
  int dp_rank() const { return dp->rank(); }

  // Collective. kUsage when the world's size is not a multiple of `tp_size`.
  static Result<Mesh> Make(Comm& world, int tp_size);
};

}  // namespace nxdkit::trainer
