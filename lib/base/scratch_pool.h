// Working memory for threads, borrowed and returned: as many objects as threads work at once.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace nxdkit {

// Thread-safe. A thread gets the T that it had before, unless another took it meanwhile: buffers
// that change hands are in the wrong core's cache, and reading into them takes up to four times as
// long.
template <typename T>
class ScratchPool {
 public:
  // Returns the T when destroyed.
  class Lease {
   public:
    Lease(ScratchPool& pool, std::unique_ptr<T> scratch)
        : pool_(&pool), scratch_(std::move(scratch)) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (scratch_ != nullptr) pool_->Return(std::move(scratch_));
    }
    T& operator*() const { return *scratch_; }
    T* operator->() const { return scratch_.get(); }

   private:
    ScratchPool* pool_;
    std::unique_ptr<T> scratch_;
  };

  Lease Take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {*this, std::make_unique<T>()};
    size_t index = 0;
    while (index + 1 < idle_.size() && idle_[index].last != std::this_thread::get_id()) ++index;
    std::unique_ptr<T> scratch = std::move(idle_[index].scratch);
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(index));
    return {*this, std::move(scratch)};
  }

 private:
  struct Idle {
    std::unique_ptr<T> scratch;
    std::thread::id last;  // its last user
  };
  void Return(std::unique_ptr<T> scratch) {
    const std::lock_guard lock(mutex_);
    idle_.push_back({std::move(scratch), std::this_thread::get_id()});
  }

  std::mutex mutex_;
  std::vector<Idle> idle_;
};

}  // namespace nxdkit
