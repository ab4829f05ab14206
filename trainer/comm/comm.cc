#include "trainer/comm/comm.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/errors.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

Error PeerFailed() { return Error(Errc::kInterrupted, "another rank of the run has failed"); }

void Copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace

// What the ranks of one group share. Buffers are posted, a barrier lets all see them, each rank
// copies what it needs, a second barrier gives the buffers back.
class Comm::Group {
 public:
  // `failed` is set once by the first rank that fails; every wait of every group looks at it.
  Group(int size, const std::atomic<bool>& failed)
      : posts(static_cast<size_t>(size)), size_(size), failed_(failed) {}

  // `to_the_end`: a failure elsewhere does not cut the wait short, for places that every rank of
  // the group is sure to reach.
  Status Wait(bool to_the_end = false) {
    std::unique_lock lock(mutex_);
    if (failed_ && !to_the_end) return PeerFailed();
    const uint64_t round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return OkStatus();
    }
    changed_.wait(lock, [&] { return round_ != round || (failed_ && !to_the_end); });
    return round_ != round ? OkStatus() : Status(PeerFailed());
  }

  void WakeAll() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

  int size() const { return size_; }

  std::vector<std::span<const std::byte>> posts;  // of each rank
  // The groups that are being split off, by color; filled between two barriers.
  struct Wish {
    int color = 0;
    int key = 0;
  };
  std::vector<Wish> wishes;
  std::map<int, std::shared_ptr<Group>> children;

 private:
  const int size_;
  const std::atomic<bool>& failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  uint64_t round_ = 0;
};

struct Comm::World {
  World(int ranks, int threads_per_rank) : results(static_cast<size_t>(ranks)) {
    const std::shared_ptr<Group> group = AddGroup(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([this, group, rank, threads_per_rank] {
        SetThreads(threads_per_rank);
        Comm comm(group, rank, *this);
        Serve(comm);
      });
  }

  ~World() {
    {
      const std::scoped_lock lock(mutex);
      body = nullptr;
      ++job;
    }
    changed.notify_all();
  }

  std::shared_ptr<Group> AddGroup(int size) {
    const std::scoped_lock lock(mutex);
    return groups.emplace_back(std::make_shared<Group>(size, failed));
  }

  // The life of one rank's thread.
  void Serve(Comm& comm) {
    for (uint64_t done = 0;;) {
      const std::function<Status(Comm&)>* mine = nullptr;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return job != done; });
        done = job;
        mine = body;
      }
      if (!mine) return;
      Finish(comm.rank(), failed ? Status(PeerFailed()) : Guarded(*mine, comm));
    }
  }

  static Status Guarded(const std::function<Status(Comm&)>& body, Comm& comm) {
    try {
      return body(comm);
    } catch (const std::bad_alloc&) {
      return OverLimit("not enough memory for the model and its intermediate results")
          .hint("smaller micro-batches or more tensor parallel ranks need less");
    }
  }

  void Finish(int rank, Status result) {
    const std::scoped_lock lock(mutex);
    if (!result.ok()) {
      failed = true;
      for (const std::shared_ptr<Group>& group : groups) group->WakeAll();
    }
    results[static_cast<size_t>(rank)] = std::move(result);
    if (--running == 0) changed.notify_all();
  }

  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Group>> groups;  // all, so that a failure wakes who waits in any
  const std::function<Status(Comm&)>* body = nullptr;
  uint64_t job = 0;
  int running = 0;
  std::vector<Status> results;
  std::vector<std::jthread> threads;  // last: they use all of the above
};

Comm::Comm(std::shared_ptr<Group> group, int rank, World& world)
    : group_(std::move(group)), rank_(rank), world_(&world) {}

int Comm::size() const { return group_->size(); }

Status Comm::Barrier() { return size() == 1 ? OkStatus() : group_->Wait(); }

Status Comm::CheckSize(int peer, size_t expected) const {
  if (group_->posts[static_cast<size_t>(peer)].size() == expected) return OkStatus();
  return Error(Errc::kInternal, "ranks call the same collective with other sizes");
}

template <typename Take>
Status Comm::Post(std::span<const std::byte> mine, const Take& take) {
  group_->posts[static_cast<size_t>(rank_)] = mine;
  NXDKIT_TRY(Barrier());
  Status taken = take();
  // Others may still read what this rank has posted: even a failed run must not free it yet.
  if (size() > 1) NXDKIT_TRY(group_->Wait(true));
  return taken;
}

Status Comm::AllGather(std::span<const std::byte> in, std::span<std::byte> out) {
  if (out.size() != in.size() * static_cast<size_t>(size()))
    return Error(Errc::kInternal, "all-gather into a buffer of another size");
  return Post(in, [&]() -> Status {
    for (int r = 0; r < size(); ++r) {
      NXDKIT_TRY(CheckSize(r, in.size()));
      Copy(out.subspan(static_cast<size_t>(r) * in.size(), in.size()),
           group_->posts[static_cast<size_t>(r)]);
    }
    return OkStatus();
  });
}

Status Comm::AllToAll(std::span<const std::byte> in, std::span<std::byte> out) {
  const size_t part = in.size() / static_cast<size_t>(size());
  if (in.size() != out.size() || part * static_cast<size_t>(size()) != in.size())
    return Error(Errc::kInternal, "all-to-all with buffers that do not fit");
  return Post(in, [&]() -> Status {
    for (int r = 0; r < size(); ++r) {
      NXDKIT_TRY(CheckSize(r, in.size()));
      Copy(out.subspan(static_cast<size_t>(r) * part, part),
           group_->posts[static_cast<size_t>(r)].subspan(static_cast<size_t>(rank_) * part, part));
    }
    return OkStatus();
  });
}

Status Comm::Exchange(std::span<const std::span<const std::byte>> in,
                      std::span<const std::span<std::byte>> out) {
  const auto ranks = static_cast<size_t>(size());
  if (in.size() != ranks || out.size() != ranks)
    return Error(Errc::kInternal, "an exchange with another number of ranks");
  return Post(std::as_bytes(in), [&]() -> Status {
    for (size_t r = 0; r < ranks; ++r) {
      const auto* theirs =
          reinterpret_cast<const std::span<const std::byte>*>(group_->posts[r].data());
      const std::span<const std::byte> from = theirs[static_cast<size_t>(rank_)];
      if (from.size() != out[r].size())
        return Error(Errc::kInternal, "ranks call the same collective with other sizes");
      if (from.data() != out[r].data()) Copy(out[r], from);
    }
    return OkStatus();
  });
}

Result<std::unique_ptr<Comm>> Comm::Split(int color, int key) {
  NXDKIT_TRY(Barrier());
  if (rank_ == 0) {
    group_->wishes.assign(static_cast<size_t>(size()), {});
    group_->children.clear();
  }
  NXDKIT_TRY(Barrier());
  group_->wishes[static_cast<size_t>(rank_)] = {color, key};
  NXDKIT_TRY(Barrier());
  if (rank_ == 0) MakeChildren();
  NXDKIT_TRY(Barrier());
  int rank = 0;
  for (int r = 0; r < size(); ++r) {
    const Group::Wish& wish = group_->wishes[static_cast<size_t>(r)];
    if (wish.color == color && std::pair(wish.key, r) < std::pair(key, rank_)) ++rank;
  }
  const std::shared_ptr<Group> child = group_->children.at(color);
  NXDKIT_TRY(Barrier());
  return std::unique_ptr<Comm>(new Comm(child, rank, *world_));
}

void Comm::MakeChildren() {
  std::map<int, int> sizes;
  for (const Group::Wish& wish : group_->wishes) ++sizes[wish.color];
  for (const auto& [color, size] : sizes) group_->children[color] = world_->AddGroup(size);
}

ThreadWorld::ThreadWorld(int ranks, int threads_per_rank)
    : world_(std::make_unique<Comm::World>(ranks, threads_per_rank)) {}
ThreadWorld::~ThreadWorld() = default;

Status ThreadWorld::Run(const std::function<Status(Comm& world)>& body) {
  Comm::World& w = *world_;
  {
    const std::scoped_lock lock(w.mutex);
    w.body = &body;
    w.running = static_cast<int>(w.threads.size());
    ++w.job;
  }
  w.changed.notify_all();
  std::unique_lock lock(w.mutex);
  w.changed.wait(lock, [&] { return w.running == 0; });
  Status echo = OkStatus();
  for (Status& result : w.results) {
    if (result.ok()) continue;
    if (result.error().code() != Errc::kInterrupted) return std::move(result);
    echo = std::move(result);
  }
  return echo;
}

Result<Mesh> Mesh::Make(Comm& world, int tp_size) {
  if (tp_size < 1 || world.size() % tp_size != 0)
    return BadUsage("{} ranks cannot be divided into groups of {}", world.size(), tp_size);
  Mesh mesh;
  NXDKIT_ASSIGN(mesh.tp, world.Split(world.rank() / tp_size, world.rank()));
  NXDKIT_ASSIGN(mesh.dp, world.Split(world.rank() % tp_size, world.rank()));
  return mesh;
}

}  // namespace nxdkit::trainer
