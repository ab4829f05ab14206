// A socket whose other end is in another process of the run: what is written here comes out there.
// When one end is closed, what was written to it still comes out; who writes at the other one
// learns it (EPIPE), and who reads there.
// Each side has a Relay on the same channel, and a socket of its own.
//
//   bytes  u64 size, 1 to 65536, then so many bytes; size 0: nothing more comes in this direction
#pragma once

#include <atomic>
#include <thread>

#include "lib/system/descriptor.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

class Relay {
 public:
  // `transport` must outlive it; nobody else uses the channel with that process.
  Relay(Transport& transport, int peer, int channel, Descriptor socket);
  // At once: what is under way is lost, and the channel is not to be used again.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Until both directions have ended: the socket's other end was closed on both sides. The channel
  // is free for the next relay then.
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
