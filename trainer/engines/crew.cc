#include "trainer/engines/crew.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace nxdkit::trainer {
namespace {

constexpr auto kPolling = std::chrono::milliseconds(100);

struct Answered {
  size_t number = 0;
  Result<std::vector<RolloutResponse>> responses;
};

class Crew {
 public:
  Crew(size_t count, const CrewTask& task) : count_(count), task_(task) {}

  void Work() {
    const auto poll = [this]() -> Status {
      return stop_ ? Status(Error(Errc::kInterrupted, "it is not needed any more")) : OkStatus();
    };
    while (!stop_) {
      const size_t number = next_++;
      if (number >= count_) return;
      Answered answered{number, task_(number, poll)};
      const std::scoped_lock lock(mutex_);
      answered_.push_back(std::move(answered));
      some_.notify_one();
    }
  }

  Status Collect(const std::function<Status()>& poll, const CrewDone& done) {
    for (size_t left = count_; left > 0;) {
      if (poll) NXDKIT_TRY(poll());
      std::optional<Answered> one = Take();
      if (!one) continue;
      if (!one->responses.ok()) return std::move(one->responses).error();
      done(one->number, *std::move(one->responses));
      --left;
    }
    return OkStatus();
  }

  void Stop() { stop_ = true; }

 private:
  std::optional<Answered> Take() {
    std::unique_lock lock(mutex_);
    if (!some_.wait_for(lock, kPolling, [this] { return !answered_.empty(); })) return std::nullopt;
    Answered first = std::move(answered_.front());
    answered_.pop_front();
    return first;
  }

  const size_t count_;
  const CrewTask& task_;
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<Answered> answered_;
};

}  // namespace

Status RunCrew(size_t count, int threads, const std::function<Status()>& poll, const CrewTask& task,
               const CrewDone& done) {
  Crew crew(count, task);
  std::vector<std::jthread> members;
  for (size_t i = 0; i < std::min(count, static_cast<size_t>(std::max(threads, 1))); ++i)
    members.emplace_back([&crew] { crew.Work(); });
  Status status = crew.Collect(poll, done);
  crew.Stop();
  return status;
}

}  // namespace nxdkit::trainer
