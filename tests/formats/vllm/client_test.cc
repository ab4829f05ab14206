// Questions to a server have an end, whatever it answers. What it may answer: tests/tools.
#include "formats/vllm/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/http_peer.h"

namespace nxdkit::vllm {
namespace {

using testing_util::ExpectError;
using testing_util::HttpPeer;
using testing_util::PeerAnswer;

TEST(ResetPrefixCache, IsNotAskedForWithoutAnEnd) {
  std::atomic<int> asked = 0;
  const HttpPeer busy([&](const std::string&, const std::string&) {
    ++asked;
    return PeerAnswer{.body = R"({"success":false})"};
  });
  const auto error = ExpectError(ResetPrefixCache({.url = busy.url(), .seconds = 1}), Errc::kIo,
                                 "the server keeps its prefix cache");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), busy.url() + "/reset_prefix_cache");
  EXPECT_GT(asked, 0);
  EXPECT_LE(asked, 21) << "a question and 50 ms each, in a second";
}

// Reading the answer is a part of the question: the time and Ctrl-C count for it too.
TEST(AskChecksums, LooksAtTheTimeWhileItReads) {
  std::string body = R"({"checksums":{},"more":[0)";
  while (body.size() < (size_t{4} << 20)) body += ",[]";
  const HttpPeer talker(
      [&](const std::string&, const std::string&) { return PeerAnswer{.body = body + "]}"}; });
  int polls = 0;
  Server server{.url = talker.url()};
  server.poll = [&] {
    ++polls;
    return OkStatus();
  };
  const auto all = AskChecksums(server);
  ASSERT_TRUE(all.ok()) << all.error().ToString();
  EXPECT_GT(polls, 1000);
  server.poll = [&] {
    return ++polls > 2000 ? Status(Error(Errc::kInterrupted, "stop")) : OkStatus();
  };
  polls = 1500;
  ExpectError(AskChecksums(server), Errc::kInterrupted, "stop");
}

}  // namespace
}  // namespace nxdkit::vllm
