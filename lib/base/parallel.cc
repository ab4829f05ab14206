#include "lib/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

class Loop {
 public:
  explicit Loop(size_t count) : count_(count) {}

  void Work(const std::function<LoopBody()>& make_body) {
    try {  // an exception that leaves a thread ends the process
      const LoopBody body = make_body();
      // An index that was taken is finished even after a failure elsewhere: no lower index is left
      // out.
      while (!stop_) {
        const size_t index = next_++;
        if (index >= count_) return;
        if (Status status = body(index); !status.ok()) Fail(index, std::move(status).error());
      }
    } catch (const std::bad_alloc&) {
      Fail(std::numeric_limits<size_t>::max(),
           OverLimit("the system gave no more memory").hint("lower --max-memory or --jobs"));
    }
  }

  Status Outcome() { return error_ ? Status(*std::move(error_)) : OkStatus(); }

 private:
  void Fail(size_t index, Error error) {
    stop_ = true;
    const std::lock_guard lock(mutex_);
    if (error_ && failed_ <= index) return;
    failed_ = index;
    error_ = std::move(error);
  }

  const size_t count_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  size_t failed_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Status ParallelFor(size_t count, int threads, const std::function<LoopBody()>& make_body) {
  if (count == 0) return OkStatus();
  Loop loop(count);
  const auto work = [&] { loop.Work(make_body); };
  const size_t most = std::min(count, static_cast<size_t>(std::max(1, threads)));
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < most; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // The threads that did start do all the work.
  }
  work();
  others.clear();
  return loop.Outcome();
}

Status ParallelFor(size_t count, int threads, const LoopBody& body) {
  return ParallelFor(count, threads, std::function<LoopBody()>([&body] {
                       return [&body](size_t index) { return body(index); };
                     }));
}

}  // namespace nxdkit
