#include "trainer/rollout/worker_process.h"

#include <sys/socket.h>

#include <cerrno>

namespace nxdkit::trainer {

bool WorkerProcess::Pump() {
  while (sent_ < out_.size()) {
    const ssize_t sent =
        ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) break;  // its earlier output is still read below
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  // One piece: its frames are taken before more is read, so that little more than one frame is
  // kept. The rest waits in the socket.
  char some[64 << 10];
  ssize_t got;
  do {
    got = ::recv(fd(), some, sizeof some, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  if (got == 0) return false;
  in_.append(some, static_cast<size_t>(got));
  Expect();
  return true;
}

std::string WorkerProcess::End(std::chrono::milliseconds grace) {
  socket_.Close();
  return running_->End(grace);
}

}  // namespace nxdkit::trainer
