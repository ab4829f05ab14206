// PRIVATE to tests. The processes of a run inside one: messages go through memory, and a wire can
// be cut.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

class MemoryNet {
 public:
  using Time = std::chrono::milliseconds;
  explicit MemoryNet(int processes, Time patience = std::chrono::seconds(60))
      : processes_(processes), patience_(patience) {}

  std::unique_ptr<Transport> Join(int process) { return std::make_unique<End>(*this, process); }
  // From now on nothing sent from or to it arrives.
  void Cut(int process) {
    const std::scoped_lock lock(mutex_);
    cut_.push_back(process);
  }

 private:
  using Key = std::tuple<int, int, int>;  // from, to, channel

  class End : public Transport {
   public:
    End(MemoryNet& net, int process) : net_(net), process_(process) {}
    int process() const override { return process_; }
    int processes() const override { return net_.processes_; }
    std::chrono::milliseconds patience() const override { return net_.patience_; }
    uint64_t sent_bytes() const override { return sent_; }

    Status Run(std::span<const Send> sends, std::span<const Receive> receives,
               const Waiting& waiting) override {
      for (const Send& send : sends) {
        net_.Put({process_, send.to, send.channel}, send.bytes);
        sent_ += send.bytes.size();
      }
      for (const Receive& receive : receives)
        NXDKIT_TRY(net_.Take({receive.from, process_, receive.channel}, receive.bytes, waiting));
      return OkStatus();
    }

   private:
    MemoryNet& net_;
    const int process_;
    std::atomic<uint64_t> sent_{0};
  };

  bool IsCut(int process) const { return std::ranges::find(cut_, process) != cut_.end(); }

  void Put(const Key& key, std::span<const std::byte> bytes) {
    const std::scoped_lock lock(mutex_);
    if (IsCut(std::get<0>(key)) || IsCut(std::get<1>(key))) return;
    queues_[key].emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }

  Status Take(const Key& key, std::span<std::byte> to, const Transport::Waiting& waiting) {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    std::deque<std::vector<std::byte>>& queue = queues_[key];
    while (queue.empty()) {
      if (waiting.cancelled != nullptr && *waiting.cancelled)
        return Error(Errc::kInterrupted, "another rank of the run has failed");
      if (waiting.limit && std::chrono::steady_clock::now() - begin > *waiting.limit)
        return Error(Errc::kLost, "process " + std::to_string(std::get<1>(key)) + ": process " +
                                      std::to_string(std::get<0>(key)) + " has not been heard of");
      changed_.wait_for(lock, std::chrono::milliseconds(2));
    }
    const std::vector<std::byte> bytes = std::move(queue.front());
    queue.pop_front();
    if (bytes.size() != to.size())
      return Error(Errc::kInternal, "ranks call the same collective with other sizes");
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
    return OkStatus();
  }

  const int processes_;
  const Time patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<std::vector<std::byte>>> queues_;
  std::vector<int> cut_;
};

}  // namespace nxdkit::trainer
