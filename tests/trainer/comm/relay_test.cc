// A socket through two processes.
#include "trainer/comm/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "tests/lib/eventually.h"
#include "tests/trainer/comm/memory_transport.h"

namespace nxdkit::trainer {
namespace {

constexpr int kChannel = 7;

// A socket on each side, and the relays between them.
class Wire {
 public:
  Wire() {
    for (int p : {0, 1}) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      ours[p] = Descriptor(ends[0]);
      transports_[p] = net_.Join(p);
      relays[p].emplace(*transports_[p], 1 - p, kChannel, Descriptor(ends[1]));
    }
  }
  void Write(int side, const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = ::write(ours[side].fd(), text.data() + at, text.size() - at);
      ASSERT_GT(written, 0);
      at += static_cast<size_t>(written);
    }
  }
  std::string Read(int side, size_t bytes) {
    std::string text(bytes, 0);
    for (size_t at = 0; at < bytes;) {
      const ssize_t got = ::read(ours[side].fd(), text.data() + at, bytes - at);
      if (got <= 0) return text.substr(0, at);
      at += static_cast<size_t>(got);
    }
    return text;
  }

 private:
  MemoryNet net_{2};
  std::unique_ptr<Transport> transports_[2];

 public:
  std::optional<Relay> relays[2];
  Descriptor ours[2];
};

TEST(Relay, CarriesBothWays) {
  Wire wire;
  std::string much(1'000'003, 0);
  for (size_t i = 0; i < much.size(); ++i) much[i] = static_cast<char>(i * 7 + i / 251);
  std::jthread writes([&] { wire.Write(0, much); });
  EXPECT_TRUE(wire.Read(1, much.size()) == much);
  writes.join();
  wire.Write(1, "answer");
  EXPECT_EQ(wire.Read(0, 6), "answer");
}

// Bytes written before the end still arrive; then both directions end, and the channel is free.
TEST(Relay, TheEndComesAfterWhatWasWritten) {
  Wire wire;
  wire.Write(0, "last words");
  wire.ours[0].Close();
  EXPECT_EQ(wire.Read(1, 100), "last words");
  wire.ours[1].Close();
  wire.relays[0]->Wait();
  wire.relays[1]->Wait();
}

TEST(Relay, NobodyReadsAndItEndsAllTheSame) {
  Wire wire;
  wire.ours[1].Close();
  const std::string much(300'000, 'x');
  ::send(wire.ours[0].fd(), much.data(), much.size(), MSG_NOSIGNAL);
  wire.ours[0].Close();
  wire.relays[0]->Wait();
  wire.relays[1]->Wait();
}

// A generating worker writes, and does not look at its input.
TEST(Relay, WhoWritesLearnsThatTheOtherEndIsClosed) {
  Wire wire;
  wire.ours[0].Close();
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return ::send(wire.ours[1].fd(), "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE; }));
  wire.ours[1].Close();
  wire.relays[0]->Wait();
  wire.relays[1]->Wait();
}

TEST(Relay, IsCutOffWhileItWaits) {
  Wire wire;
  wire.relays[0].reset();
  EXPECT_EQ(wire.Read(0, 1), "");
}

}  // namespace
}  // namespace nxdkit::trainer
