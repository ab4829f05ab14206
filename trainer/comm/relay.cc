#include "trainer/comm/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>
#include <vector>

namespace nxdkit::trainer {
namespace {

constexpr size_t kMostBytes = 64 << 10;

std::span<std::byte> BytesOf(uint64_t& value) {
  return std::as_writable_bytes(std::span(&value, size_t{1}));
}

// False when nobody reads any longer.
bool WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Relay::Relay(Transport& transport, int peer, int channel, Descriptor socket)
    : transport_(transport), peer_(peer), channel_(channel), socket_(std::move(socket)) {
  out_ = std::jthread([this] { Out(); });
  in_ = std::jthread([this] { In(); });
}

Relay::~Relay() {
  cut_ = true;
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

void Relay::Wait() {
  if (out_.joinable()) out_.join();
  if (in_.joinable()) in_.join();
}

void Relay::Out() {
  std::vector<std::byte> some(kMostBytes);
  uint64_t size = 0;
  do {
    ssize_t got = 0;
    do {
      got = ::recv(socket_.fd(), some.data(), some.size(), 0);
    } while (got < 0 && errno == EINTR);
    size = got > 0 ? static_cast<uint64_t>(got) : 0;
    const Transport::Send sends[] = {{peer_, channel_, BytesOf(size)},
                                     {peer_, channel_, std::span(some).first(size)}};
    const size_t count = size > 0 ? 2 : 1;
    if (!transport_.Run({sends, count}, {}, {&cut_, transport_.patience()}).ok()) break;
  } while (size > 0);
}

// Data that nobody reads any longer is discarded: the end marker is still to come.
void Relay::In() {
  std::vector<std::byte> some(kMostBytes);
  bool read = true;
  while (true) {
    uint64_t size = 0;
    Transport::Receive receive{peer_, channel_, BytesOf(size)};
    if (!transport_.Run({}, {&receive, 1}, {&cut_, std::nullopt, Transport::Pace::kIdle}).ok())
      break;
    if (size == 0 || size > some.size()) break;
    receive.bytes = std::span(some).first(size);
    if (!transport_.Run({}, {&receive, 1}, {&cut_, transport_.patience()}).ok()) break;
    read = read && WriteAll(socket_.fd(), receive.bytes);
  }
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

}  // namespace nxdkit::trainer
