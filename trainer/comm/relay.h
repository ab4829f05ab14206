// A socket whose other end is in another process of the run: what is written here is read there.
// When one end is closed, data already written to it is still delivered; the other end then gets
// EPIPE on writing and end of file on reading. Each side has a Relay on the same channel, and a
// socket of its own.
//
//   bytes  u64 size, 1 to 65536, then that many bytes; size 0: the end of this direction
#pragma once

#include <atomic>
#include <thread>

#include "lib/system/descriptor.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

class Relay {
 public:
  // `transport` must outlive it; nobody else uses the channel to that process.
  Relay(Transport& transport, int peer, int channel, Descriptor socket);
  // Ends at once: data under way is lost, and the channel must not be used again.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Waits until both directions have ended: the socket's other end was closed on both sides. The
  // channel is free for the next relay then.
  void Wait();

 private:
  void Out();
  void In();

  Transport& transport_;
  const int peer_, channel_;
  const Descriptor socket_;
  std::atomic<bool> cut_{false};
  std::jthread out_, in_;
};

}  // namespace nxdkit::trainer
