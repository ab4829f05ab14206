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

#include "lib/base/errors.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

Error PeerFailed() { return Error(Errc::kInterrupted, "another rank of the run has failed"); }

void Copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace

// State shared by the ranks of one group that are in this process. Buffers are posted, a barrier
// makes them visible to all, each rank copies what it needs, a second barrier returns the buffers.
class Comm::Group {
 public:
  struct Member {
    int process = 0;
    int thread = 0;  // within the process
  };
  // `failed` is set once by the first rank that fails; every wait of every group checks it.
  Group(std::vector<Member> members_in, int process, bool background_in,
        const std::atomic<bool>& failed)
      : posts(members_in.size()),
        members(std::move(members_in)),
        background(background_in),
        failed_(failed) {
    here_ = static_cast<int>(std::ranges::count(members, process, &Member::process));
  }

  // `to_the_end`: a failure elsewhere does not cut the wait short, for points that every rank of
  // the group is sure to reach.
  Status Wait(bool to_the_end = false) {
    std::unique_lock lock(mutex_);
    if (failed_ && !to_the_end) return PeerFailed();
    const uint64_t round = round_;
    if (++waiting_ == here_) {
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

  int size() const { return static_cast<int>(members.size()); }
  bool is_local() const { return here_ == size(); }
  bool is_here(size_t rank, int process) const { return members[rank].process == process; }

  std::vector<std::span<const std::byte>> posts;  // for each rank of this process
  const std::vector<Member> members;
  const bool background;
  // The groups being split off, by color.
  void PutChild(int color, std::shared_ptr<Group> child) {
    const std::scoped_lock lock(mutex_);
    children_[color] = std::move(child);
  }
  std::shared_ptr<Group> ChildOf(int color) {
    const std::scoped_lock lock(mutex_);
    return children_.at(color);
  }

 private:
  std::map<int, std::shared_ptr<Group>> children_;
  int here_ = 0;  // members of this process
  const std::atomic<bool>& failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  uint64_t round_ = 0;
};

struct Comm::World {
  World(const std::vector<int>& ranks_of_process, int threads_per_rank, Transport* transport_in)
      : transport(transport_in), most_of_process(std::ranges::max(ranks_of_process)) {
    std::vector<Group::Member> members;
    int first = 0;  // in this process
    for (int p = 0; p < static_cast<int>(ranks_of_process.size()); ++p) {
      if (p == process()) first = static_cast<int>(members.size());
      for (int thread = 0; thread < ranks_of_process[static_cast<size_t>(p)]; ++thread)
        members.push_back({p, thread});
    }
    const int ranks = ranks_of_process[static_cast<size_t>(process())];
    results.resize(static_cast<size_t>(ranks), OkStatus());
    const std::shared_ptr<Group> group = AddGroup(std::move(members), false);
    for (int thread = 0; thread < ranks; ++thread)
      threads.emplace_back([this, group, thread, rank = first + thread, threads_per_rank] {
        SetThreads(threads_per_rank);
        Comm comm(group, rank, *this);
        Serve(comm, static_cast<size_t>(thread));
      });
  }

  int process() const { return transport == nullptr ? 0 : transport->process(); }

  ~World() {
    {
      const std::scoped_lock lock(mutex);
      body = nullptr;
      ++job;
    }
    changed.notify_all();
  }

  std::shared_ptr<Group> AddGroup(std::vector<Group::Member> members, bool background) {
    const std::scoped_lock lock(mutex);
    return groups.emplace_back(
        std::make_shared<Group>(std::move(members), process(), background, failed));
  }

  // The main loop of one rank's thread.
  void Serve(Comm& comm, size_t thread) {
    for (uint64_t done = 0;;) {
      const std::function<Status(Comm&)>* mine = nullptr;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return job != done; });
        done = job;
        mine = body;
      }
      if (!mine) return;
      Finish(thread, failed ? Status(PeerFailed()) : Guarded(*mine, comm));
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

  void Finish(size_t thread, Status result) {
    const std::scoped_lock lock(mutex);
    if (!result.ok()) {
      failed = true;
      for (const std::shared_ptr<Group>& group : groups) group->WakeAll();
    }
    results[thread] = std::move(result);
    if (--running == 0) changed.notify_all();
  }

  Transport* const transport;
  const int most_of_process;  // the number of ranks of the largest process
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Group>> groups;  // all groups: a failure wakes the waiters of each
  const std::function<Status(Comm&)>* body = nullptr;
  uint64_t job = 0;
  int running = 0;
  std::vector<Status> results;
  std::vector<std::jthread> threads;  // last: they use everything above
};

Comm::Comm(std::shared_ptr<Group> group, int rank, World& world)
    : group_(std::move(group)), rank_(rank), world_(&world) {}

int Comm::size() const { return group_->size(); }
bool Comm::is_local() const { return group_->is_local(); }

Status Comm::Barrier() {
  if (size() == 1) return OkStatus();
  if (group_->is_local()) return group_->Wait();
  const std::byte mine{};
  std::vector<std::byte> all(static_cast<size_t>(size()));
  return AllGather(std::span(&mine, size_t{1}), all);
}

template <typename Take>
Status Comm::Post(std::span<const std::byte> mine, const Take& take) {
  group_->posts[static_cast<size_t>(rank_)] = mine;
  if (size() > 1) NXDKIT_TRY(group_->Wait());
  Status taken = take();
  // Others may still be reading what this rank posted: even a failed run must not free it yet.
  if (size() > 1) NXDKIT_TRY(group_->Wait(true));
  return taken;
}

Status Comm::AllGather(std::span<const std::byte> in, std::span<std::byte> out) {
  if (out.size() != in.size() * static_cast<size_t>(size()))
    return Error(Errc::kInternal, "all-gather into a buffer of another size");
  std::vector<std::span<std::byte>> parts;
  for (int r = 0; r < size(); ++r)
    parts.push_back(out.subspan(static_cast<size_t>(r) * in.size(), in.size()));
  return Exchange(std::vector<std::span<const std::byte>>(parts.size(), in), parts);
}

Status Comm::AllToAll(std::span<const std::byte> in, std::span<std::byte> out) {
  const size_t part = in.size() / static_cast<size_t>(size());
  if (in.size() != out.size() || part * static_cast<size_t>(size()) != in.size())
    return Error(Errc::kInternal, "all-to-all with buffers that do not fit");
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (size_t r = 0; r < static_cast<size_t>(size()); ++r) {
    from.push_back(in.subspan(r * part, part));
    to.push_back(out.subspan(r * part, part));
  }
  return Exchange(from, to);
}

Status Comm::Exchange(std::span<const std::span<const std::byte>> in,
                      std::span<const std::span<std::byte>> out) {
  const auto ranks = static_cast<size_t>(size());
  if (in.size() != ranks || out.size() != ranks)
    return Error(Errc::kInternal, "an exchange with another number of ranks");
  return Post(std::as_bytes(in), [&]() -> Status {
    for (size_t r = 0; r < ranks; ++r) {
      if (!group_->is_here(r, world_->process())) continue;
      const auto* theirs =
          reinterpret_cast<const std::span<const std::byte>*>(group_->posts[r].data());
      const std::span<const std::byte> from = theirs[static_cast<size_t>(rank_)];
      if (from.size() != out[r].size())
        return Error(Errc::kInternal, "ranks call the same collective with other sizes");
      if (from.data() != out[r].data()) Copy(out[r], from);
    }
    return group_->is_local() ? OkStatus() : ExchangeRemote(in, out);
  });
}

// Each pair of threads shares one channel, whatever the group: both make the same calls in the same
// order. Background communicators have channels of their own.
Status Comm::ExchangeRemote(std::span<const std::span<const std::byte>> in,
                            std::span<const std::span<std::byte>> out) {
  const std::vector<Group::Member>& members = group_->members;
  const int threads = world_->most_of_process;
  const int first = group_->background ? threads * threads : 0;
  const Group::Member& me = members[static_cast<size_t>(rank_)];
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  for (size_t r = 0; r < members.size(); ++r) {
    const Group::Member& peer = members[r];
    if (peer.process == me.process) continue;
    sends.push_back({peer.process, first + me.thread * threads + peer.thread, in[r]});
    receives.push_back({peer.process, first + peer.thread * threads + me.thread, out[r]});
  }
  return world_->transport->Run(
      sends, receives,
      {&world_->failed, world_->transport->patience(),
       group_->background ? Transport::Pace::kMoving : Transport::Pace::kEager});
}

Result<std::unique_ptr<Comm>> Comm::Split(int color, int key, bool background) {
  struct Wish {
    int color = 0;
    int key = 0;
  };
  const Wish mine{color, key};
  std::vector<Wish> wishes(static_cast<size_t>(size()));
  NXDKIT_TRY(AllGather(std::as_bytes(std::span(&mine, size_t{1})),
                       std::as_writable_bytes(std::span(wishes))));
  std::vector<size_t> chosen;  // the ranks in this process of the new group, in its order
  for (size_t r = 0; r < wishes.size(); ++r)
    if (wishes[r].color == color) chosen.push_back(r);
  std::ranges::stable_sort(chosen, {}, [&](size_t r) { return wishes[r].key; });
  const auto found = std::ranges::find(chosen, static_cast<size_t>(rank_));
  const int rank = static_cast<int>(found - chosen.begin());

  // The first rank of this process creates the shared state.
  const auto is_here = [&](size_t r) { return group_->is_here(r, world_->process()); };
  const bool makes = *std::ranges::find_if(chosen, is_here) == static_cast<size_t>(rank_);
  std::vector<Group::Member> members;
  for (const size_t r : chosen) members.push_back(group_->members[r]);
  if (makes) group_->PutChild(color, world_->AddGroup(std::move(members), background));
  NXDKIT_TRY(Barrier());
  const std::shared_ptr<Group> child = group_->ChildOf(color);
  NXDKIT_TRY(Barrier());  // before another split
  return std::unique_ptr<Comm>(new Comm(child, rank, *world_));
}

ThreadWorld::ThreadWorld(int ranks, int threads_per_rank)
    : ThreadWorld(std::vector{ranks}, threads_per_rank, nullptr) {}
ThreadWorld::ThreadWorld(const std::vector<int>& ranks_of_process, int threads_per_rank,
                         Transport* transport)
    : world_(std::make_unique<Comm::World>(ranks_of_process, threads_per_rank, transport)) {}
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
  NXDKIT_ASSIGN(mesh.dp_background, world.Split(world.rank() % tp_size, world.rank(), true));
  return mesh;
}

}  // namespace nxdkit::trainer
