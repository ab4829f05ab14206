// Transfer of bytes between the processes of a run, for a communicator whose ranks are not all
// threads of one process. It moves bytes only; trainer/comm/reduce.h adds them up.
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
    int to = 0;       // a process other than this one
    int channel = 0;  // 0 to kChannels - 1
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from = 0;
    int channel = 0;
    std::span<std::byte> bytes;
  };
  static constexpr int kChannels = 1 << 20;

  // How a waiting thread polls. MPI moves bytes only while it is polled.
  enum class Pace {
    kIdle,    // it may take long: sleeps for a sixteenth of the wait so far, up to 1 ms
    kMoving,  // bytes are on their way: sleeps for microseconds
    kEager,   // a rank that others wait for as it does for them: polls without a pause at first
  };
  struct Waiting {
    const std::atomic<bool>* cancelled = nullptr;  // ends the wait when it becomes true
    // The longest silence; nullopt: unlimited, as for the next order of a leader.
    std::optional<std::chrono::milliseconds> limit;
    Pace pace = Pace::kMoving;
  };

  virtual ~Transport() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  // The time that ranks of a mesh wait for one another: Waiting::limit of their collectives.
  virtual std::chrono::milliseconds patience() const = 0;

  // Posts all transfers and waits for all. Messages between two processes on one channel arrive in
  // the order in which they were sent; a message of another size than expected is kInternal. May be
  // called by several threads at once, each with its own channels. kInterrupted when cancelled.
  // kLost when nothing has arrived for the limit: the other process is dead, hangs or cannot be
  // reached, and the run cannot go on.
  virtual Status Run(std::span<const Send> sends, std::span<const Receive> receives,
                     const Waiting& waiting) = 0;

  // The bytes of all messages so far; from any thread.
  virtual uint64_t sent_bytes() const = 0;
};

}  // namespace nxdkit::trainer
