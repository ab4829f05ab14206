// Bytes between the processes of a run: what a communicator needs where its ranks are not all
// threads of one process. Moves bytes only; sums are made by trainer/comm/reduce.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
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

  virtual ~Transport() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;

  // Posts all, and waits until all are through. Messages of two processes and one channel arrive in
  // the order in which they were sent; a message of another size than is received is kInternal.
  // Called by several threads at once, each with channels of its own. kInterrupted when `cancelled`
  // becomes true; kIo when nothing has arrived for the time that the transport allows: then the
  // other process is dead, hangs or cannot be reached, and the run cannot go on.
  // `patient`: however long it takes, as for the next order of a leader.
  virtual Status Run(std::span<const Send> sends, std::span<const Receive> receives,
                     const std::atomic<bool>& cancelled, bool patient = false) = 0;
};

}  // namespace nxdkit::trainer
