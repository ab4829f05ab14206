// Bytes between the processes of a run: what a communicator needs where its ranks are not all
// threads of one process. Moves bytes only; sums are made by trainer/comm/reduce.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/base/error.h"

namespace nxdkit::trainer {

class Transport {
 public:
  struct Send {
    int to = 0;       // a process, another one than this
    int channel = 0;  // 0 to kChannels - 1
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from = 0;
    int channel = 0;
    std::span<std::byte> bytes;
  };
  static constexpr int kChannels = 1 << 20;

  // How a thread looks for what comes. MPI moves bytes only while it is asked.
  enum class Pace {
    kIdle,    // it may be long in coming: sleeps for a sixteenth of the wait so far, up to 1 ms
    kMoving,  // bytes are on their way: sleeps for microseconds
    kEager,   // a rank that others wait for as it does for them: looks again and again at first
  };
  struct Waiting {
    const std::atomic<bool>* cancelled = nullptr;  // ends the wait when it becomes true
    // How long nothing may arrive; nullopt: however long it takes, as for the next order of a
    // leader.
    std::optional<std::chrono::milliseconds> limit;
    Pace pace = Pace::kMoving;
  };

  virtual ~Transport() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  // How long the ranks of a mesh wait for one another: Waiting::limit of their collectives.
  virtual std::chrono::milliseconds patience() const = 0;

  // Posts all, and waits until all are through. Messages of two processes and one channel arrive in
  // the order in which they were sent; a message of another size than is received is kInternal.
  // Called by several threads at once, each with channels of its own. kInterrupted when cancelled;
  // when nothing has arrived for the limit the other process is dead, hangs or cannot be
  // reached, and the run cannot go on: kLost.
  virtual Status Run(std::span<const Send> sends, std::span<const Receive> receives,
                     const Waiting& waiting) = 0;

  // Of all messages so far, from any thread.
  virtual uint64_t sent_bytes() const = 0;
};

}  // namespace nxdkit::trainer
