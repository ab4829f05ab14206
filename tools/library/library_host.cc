#include "tools/library/library_host.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <thread>
#include <utility>

namespace nxdkit::tool {
namespace {

constexpr auto kBetweenCalls = std::chrono::milliseconds(50);

}  // namespace

Error StoppedByCaller() { return Error(Errc::kInterrupted, "stopped by the caller"); }

Status LibraryHost::Poll() const {
  if (!stopped_.load(std::memory_order_relaxed)) return OkStatus();
  return StoppedByCaller();
}

void LibraryHost::BeginPhase(const std::string& phase, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phase_ = phase;
  total_ = bytes;
  done_ = 0;
}

const HeldSource* LibraryHost::Held(const std::string& path) const {
  const auto found = held_.find(path);
  return found == held_.end() ? nullptr : &found->second;
}

void LibraryHost::Keep(const std::string& line) {
  if (!is_watched_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  messages_.push_back(line.ends_with('\n') ? line.substr(0, line.size() - 1) : line);
}

bool LibraryHost::Tell(nxdkit_progress progress, void* context) noexcept {
  std::string phase;
  uint64_t done = 0;
  uint64_t total = 0;
  std::vector<std::string> messages;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase = phase_;
    done = done_;
    total = total_;
    messages = std::exchange(messages_, {});
  }
  for (const std::string& message : messages)
    if (progress(context, phase.c_str(), done, total, message.c_str()) != 0) return false;
  return progress(context, phase.c_str(), done, total, nullptr) == 0;
}

void LibraryHost::Run(const std::function<void()>& work, nxdkit_progress progress, void* context) {
  if (progress == nullptr) return work();
  is_watched_ = true;
  // The first call precedes the work: otherwise work of a few moments could not be stopped.
  stopped_ = !Tell(progress, context);
  if (stopped_) return;
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  std::exception_ptr thrown;
  std::thread worker([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    is_over = true;
    over.notify_one();
  });
  // Progress is reported to the end, also after a stop: the caller may have other work meanwhile.
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    if (over.wait_for(lock, kBetweenCalls, [&] { return is_over; })) break;
    lock.unlock();
    if (!Tell(progress, context)) stopped_ = true;
  }
  worker.join();
  if (thrown) std::rethrow_exception(thrown);
  if (!stopped_) Tell(progress, context);
}

}  // namespace nxdkit::tool
