#include "tools/library/library_host.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

namespace nxdkit::tool {
namespace {

constexpr auto kBetweenCalls = std::chrono::milliseconds(50);

}  // namespace

Status LibraryHost::Poll() const {
  if (!stopped_.load(std::memory_order_relaxed)) return OkStatus();
  return Error(Errc::kInterrupted, "stopped by the caller");
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
  const std::lock_guard<std::mutex> lock(mutex_);
  messages_.push_back(line.ends_with('\n') ? line.substr(0, line.size() - 1) : line);
}

bool LibraryHost::Tell(nxdkit_progress progress, void* context) {
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
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  std::thread worker([&] {
    work();
    const std::lock_guard<std::mutex> lock(mutex);
    is_over = true;
    over.notify_one();
  });
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    if (over.wait_for(lock, kBetweenCalls, [&] { return is_over; })) break;
    lock.unlock();
    if (!stopped_ && !Tell(progress, context)) stopped_ = true;
  }
  worker.join();
  if (!stopped_) Tell(progress, context);
}

}  // namespace nxdkit::tool
