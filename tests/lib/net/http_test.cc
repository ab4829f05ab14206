#include "lib/net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/http_peer.h"

namespace nxdkit {
namespace {

using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::HttpPeer;
using testing_util::PeerAnswer;

TEST(Http, PostsJsonAndGets) {
  const HttpPeer peer([](const std::string& path, const std::string& body) {
    return PeerAnswer{.status = path == "/missing" ? 404 : 200, .body = path + "|" + body};
  });
  const std::string large(3 << 20, 'x');
  const auto posted = Http({.url = peer.url() + "/a?b=c", .body = large});
  ASSERT_TRUE(posted.ok()) << posted.error().ToString();
  EXPECT_EQ(posted->status, 200);
  EXPECT_EQ(posted->body, "/a?b=c|" + large);
  const auto got = Http({.url = peer.url() + "/missing", .body = "", .post = false});
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_EQ(got->status, 404) << "an answer of any status is one";
  EXPECT_EQ(got->body, "/missing|");
}

TEST(Http, AProxyOfTheEnvironmentIsNotAsked) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  const HttpPeer peer([](const std::string&, const std::string&) { return PeerAnswer{}; });
  EXPECT_TRUE(Http({.url = peer.url(), .body = "{}"}).ok());
  ::unsetenv("http_proxy");
}

TEST(Http, WhatIsNoAnswerIsAnError) {
  std::string gone;
  {
    const HttpPeer peer([](const std::string&, const std::string&) { return PeerAnswer{}; });
    gone = peer.url();
  }
  const auto refused = ExpectError(Http({.url = gone, .body = "{}"}), Errc::kIo, "no answer: ");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->file(), gone);
  const HttpPeer cut([](const std::string&, const std::string&) {
    return PeerAnswer{.body = "{\"half\":", .promised = 20};
  });
  EXPECT_TRUE(ExpectError(Http({.url = cut.url(), .body = "{}"}), Errc::kIo, "no answer: "));
  EXPECT_TRUE(ExpectError(Http({.url = "ftp://x", .body = ""}), Errc::kUsage, "is not a URL"));
}

TEST(Http, ASlowOneIsNotWaitedForForEver) {
  const HttpPeer slow(
      [](const std::string&, const std::string&) { return PeerAnswer{.wait_ms = 60'000}; });
  const HttpRequest request{.url = slow.url(), .body = "{}", .seconds = 0.2};
  EXPECT_TRUE(ExpectError(Http(request), Errc::kIo, "timed out"));
  const HttpRequest at_once{.url = slow.url(), .body = "{}", .seconds = 0};
  EXPECT_TRUE(ExpectError(Http(at_once), Errc::kIo, "timed out")) << "none is not for ever";
  HttpRequest polled{.url = slow.url(), .body = "{}"};
  polled.poll = [] { return Status(Error(Errc::kInterrupted, "stop")); };
  EXPECT_TRUE(ExpectError(Http(polled), Errc::kInterrupted, "stop"));
}

TEST(Http, AnAnswerIsBounded) {
  const HttpPeer talker([](const std::string&, const std::string&) {
    return PeerAnswer{.body = std::string(100'000, 'x')};
  });
  const HttpRequest request{.url = talker.url(), .body = "{}", .most_bytes = 99'999};
  EXPECT_TRUE(ExpectError(Http(request), Errc::kLimit, "longer than 99999 bytes"));
}

}  // namespace
}  // namespace nxdkit
