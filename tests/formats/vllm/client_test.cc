// Questions to a server end, whatever it answers. Its possible answers: tests/tools.
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

// An object for each worker, merged.
TEST(AskChecksumsOfWorkers, TakesTheAnswersOfAllWorkers) {
  const std::string a(64, 'a'), b(64, 'b');
  std::string answer;
  std::string asked;
  const HttpPeer talker([&](const std::string& path, const std::string& body) {
    asked = path + " " + body;
    return PeerAnswer{.body = answer};
  });
  const Server server{.url = talker.url()};
  answer =
      R"({"results":[{"dp0:tp0:w":")" + a + R"("},{"dp0:tp1:w":")" + b + R"("}],"more":[[{}]]})";
  const auto all = AskChecksumsOfWorkers(server);
  ASSERT_TRUE(all.ok()) << all.error().ToString();
  EXPECT_EQ(*all, (std::map<std::string, std::string>{{"dp0:tp0:w", a}, {"dp0:tp1:w", b}}));
  EXPECT_EQ(asked, R"(/collective_rpc {"method":"compute_weight_checksums"})");
  answer = R"({"results":[{"w":")" + a + R"("},{"w":")" + a + R"("}]})";
  ExpectError(AskChecksumsOfWorkers(server), Errc::kCorrupt, "two digests have the same name");
  answer = R"({"results":[{"dp0:tp0:w":3}]})";
  ExpectError(AskChecksumsOfWorkers(server), Errc::kCorrupt, "expected 64 hexadecimal digits");
  answer = R"({"results":[null]})";
  ExpectError(AskChecksumsOfWorkers(server), Errc::kCorrupt, "the answer has no checksums");
}

// Reading the answer is part of the question: the time limit and Ctrl-C apply to it too.
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
