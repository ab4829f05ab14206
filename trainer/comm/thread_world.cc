#include "trainer/comm/thread_world.h"

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

#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

// Set once by the first rank that fails; every wait of every group looks at it.
struct Failure {
  std::atomic<bool> happened{false};
};

Error PeerFailed() { return Error(Errc::kInterrupted, "another rank of the run has failed"); }

// What the ranks of one group share. Buffers are posted, a barrier lets all see them, each rank
// copies what it needs, a second barrier gives the buffers back.
class Group {
 public:
  Group(int size, std::shared_ptr<Failure> failure) : size_(size), failure_(std::move(failure)) {
    posts_.resize(static_cast<size_t>(size));
  }

  // `to_the_end`: a failure elsewhere does not cut the wait short, for places that every rank of
  // the group is sure to reach.
  Status Wait(bool to_the_end = false) {
    std::unique_lock lock(mutex_);
    if (failure_->happened && !to_the_end) return PeerFailed();
    const uint64_t round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return OkStatus();
    }
    changed_.wait(lock, [&] { return round_ != round || (failure_->happened && !to_the_end); });
    return round_ != round ? OkStatus() : Status(PeerFailed());
  }

  void WakeAll() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

  int size() const { return size_; }
  const std::shared_ptr<Failure>& failure() const { return failure_; }
  std::span<const std::byte>& post(int rank) { return posts_[static_cast<size_t>(rank)]; }

  // The groups that are being split off, by color; filled between two barriers.
  struct Wish {
    int color = 0;
    int key = 0;
  };
  std::vector<Wish> wishes;
  std::map<int, std::shared_ptr<Group>> children;

 private:
  const int size_;
  const std::shared_ptr<Failure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  uint64_t round_ = 0;
  std::vector<std::span<const std::byte>> posts_;
};

// All groups of a world, so that a failure wakes those who wait in any of them.
class Registry {
 public:
  void Add(const std::shared_ptr<Group>& group) {
    const std::scoped_lock lock(mutex_);
    groups_.push_back(group);
  }
  void WakeAll() {
    const std::scoped_lock lock(mutex_);
    for (const std::shared_ptr<Group>& group : groups_) group->WakeAll();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Group>> groups_;
};

class ThreadComm : public Comm {
 public:
  ThreadComm(std::shared_ptr<Group> group, int rank, Registry& registry)
      : group_(std::move(group)), rank_(rank), registry_(&registry) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  Status Barrier() override { return size() == 1 ? OkStatus() : group_->Wait(); }

  Status Broadcast(std::span<std::byte> bytes, int root) override {
    if (size() == 1) return OkStatus();
    return Exchange(bytes, [&]() -> Status {
      if (rank_ == root) return OkStatus();
      NXDKIT_TRY(CheckSize(root, bytes.size()));
      Copy(bytes, group_->post(root));
      return OkStatus();
    });
  }

  Status AllGather(std::span<const std::byte> in, std::span<std::byte> out) override {
    if (out.size() != in.size() * static_cast<size_t>(size()))
      return Error(Errc::kInternal, "all-gather into a buffer of another size");
    return Exchange(in, [&]() -> Status {
      for (int r = 0; r < size(); ++r) {
        NXDKIT_TRY(CheckSize(r, in.size()));
        Copy(out.subspan(static_cast<size_t>(r) * in.size(), in.size()), group_->post(r));
      }
      return OkStatus();
    });
  }

  Status AllToAll(std::span<const std::byte> in, std::span<std::byte> out) override {
    const size_t part = in.size() / static_cast<size_t>(size());
    if (in.size() != out.size() || part * static_cast<size_t>(size()) != in.size())
      return Error(Errc::kInternal, "all-to-all with buffers that do not fit");
    return Exchange(in, [&]() -> Status {
      for (int r = 0; r < size(); ++r) {
        NXDKIT_TRY(CheckSize(r, in.size()));
        Copy(out.subspan(static_cast<size_t>(r) * part, part),
             group_->post(r).subspan(static_cast<size_t>(rank_) * part, part));
      }
      return OkStatus();
    });
  }

  Result<std::unique_ptr<Comm>> Split(int color, int key) override {
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
    return std::unique_ptr<Comm>(std::make_unique<ThreadComm>(child, rank, *registry_));
  }

 private:
  void MakeChildren() {
    std::map<int, int> sizes;
    for (const Group::Wish& wish : group_->wishes) ++sizes[wish.color];
    for (const auto& [color, size] : sizes) {
      const auto child = std::make_shared<Group>(size, group_->failure());
      registry_->Add(child);
      group_->children[color] = child;
    }
  }

  template <typename Take>
  Status Exchange(std::span<const std::byte> mine, const Take& take) {
    group_->post(rank_) = mine;
    NXDKIT_TRY(Barrier());
    Status taken = take();
    // Others may still read what this rank has posted: even a failed run must not free it yet.
    if (size() > 1) NXDKIT_TRY(group_->Wait(true));
    return taken;
  }

  Status CheckSize(int peer, size_t expected) {
    if (group_->post(peer).size() == expected) return OkStatus();
    return Error(Errc::kInternal, "ranks call the same collective with other sizes");
  }

  static void Copy(std::span<std::byte> to, std::span<const std::byte> from) {
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  Registry* registry_;
};

}  // namespace

struct ThreadWorld::State {
  State(int ranks, int threads_per_rank)
      : failure(std::make_shared<Failure>()), world(std::make_shared<Group>(ranks, failure)) {
    registry.Add(world);
    results.resize(static_cast<size_t>(ranks), OkStatus());
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([this, rank, threads_per_rank] {
        SetThreads(threads_per_rank);
        Serve(rank);
      });
  }

  ~State() {
    {
      const std::scoped_lock lock(mutex);
      body = nullptr;
      ++job;
    }
    changed.notify_all();
  }

  // The life of one rank's thread.
  void Serve(int rank) {
    ThreadComm comm(world, rank, registry);
    for (uint64_t done = 0;;) {
      const std::function<Status(Comm&)>* mine = nullptr;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return job != done; });
        done = job;
        mine = body;
      }
      if (!mine) return;
      Finish(rank, failure->happened ? Status(PeerFailed()) : Guarded(*mine, comm));
    }
  }

  static Status Guarded(const std::function<Status(Comm&)>& body, Comm& comm) {
    try {
      return body(comm);
    } catch (const std::bad_alloc&) {
      return Error(Errc::kLimit,
                   "not enough memory for the model and its intermediate "
                   "results")
          .hint("smaller micro-batches or more tensor parallel ranks need less");
    }
  }

  void Finish(int rank, Status result) {
    if (!result.ok()) {
      failure->happened = true;
      registry.WakeAll();
    }
    const std::scoped_lock lock(mutex);
    results[static_cast<size_t>(rank)] = std::move(result);
    if (--running == 0) changed.notify_all();
  }

  const std::shared_ptr<Failure> failure;
  const std::shared_ptr<Group> world;
  Registry registry;
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<Status(Comm&)>* body = nullptr;
  uint64_t job = 0;
  int running = 0;
  std::vector<Status> results;
  std::vector<std::jthread> threads;  // last: they use all of the above
};

ThreadWorld::ThreadWorld(int ranks, int threads_per_rank)
    : state_(std::make_unique<State>(ranks, threads_per_rank)) {}
ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const { return static_cast<int>(state_->threads.size()); }

Status ThreadWorld::Run(const std::function<Status(Comm& world)>& body) {
  State& s = *state_;
  {
    const std::scoped_lock lock(s.mutex);
    s.body = &body;
    s.running = size();
    ++s.job;
  }
  s.changed.notify_all();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.running == 0; });
  Status echo = OkStatus();
  for (Status& result : s.results) {
    if (result.ok()) continue;
    if (result.error().code() != Errc::kInterrupted) return std::move(result);
    echo = std::move(result);
  }
  return echo;
}

Status RunThreadWorld(int ranks, const std::function<Status(Comm& world)>& body) {
  return ThreadWorld(ranks).Run(body);
}

}  // namespace nxdkit::trainer
