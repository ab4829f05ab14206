// PRIVATE to tests: a small HTTP server that answers as a test requires, faults included. It is not
// a model of any real one.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace nxdkit::testing_util {

struct PeerAnswer {
  int status = 200;
  std::string body = "{}";
  size_t promised = 0;  // excess of Content-Length over the bytes sent
  int wait_ms = 0;      // before anything is sent, unless the client hangs up
};

class HttpPeer {
 public:
  using Answers = std::function<PeerAnswer(const std::string& path, const std::string& body)>;

  // `port`: 0 selects a free one.
  explicit HttpPeer(Answers answers, int port = 0) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const int again = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again));
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, any, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~HttpPeer() {
    done_ = true;
    thread_.join();
    ::close(listener_);
  }
  HttpPeer(const HttpPeer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  static constexpr int kTickMs = 20;

  bool Wait(int fd) const {
    while (!done_) {
      pollfd one{fd, POLLIN, 0};
      if (::poll(&one, 1, kTickMs) > 0) return true;
    }
    return false;
  }

  void Serve() {
    while (Wait(listener_)) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      Talk(fd);
      ::close(fd);
    }
  }

  void Talk(int fd) {
    std::string request;
    size_t wanted = std::string::npos;  // bytes of the whole request
    while (request.size() < wanted) {
      char part[4096];
      if (!Wait(fd)) return;
      const ssize_t got = ::read(fd, part, sizeof(part));
      if (got <= 0) return;
      request.append(part, static_cast<size_t>(got));
      const size_t end = request.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      const size_t length = request.find("Content-Length: ");
      wanted = end + 4 + (length < end ? std::stoul(request.substr(length + 16)) : 0);
    }
    const size_t path = request.find(' ') + 1;
    const PeerAnswer answer = answers_(request.substr(path, request.find(' ', path) - path),
                                       request.substr(request.find("\r\n\r\n") + 4));
    pollfd hang_up{fd, POLLRDHUP, 0};
    for (int waited = 0; waited < answer.wait_ms && !done_; waited += kTickMs)
      if (::poll(&hang_up, 1, kTickMs) > 0) return;
    const std::string text = "HTTP/1.1 " + std::to_string(answer.status) +
                             " X\r\nConnection: close\r\nContent-Length: " +
                             std::to_string(answer.body.size() + answer.promised) + "\r\n\r\n" +
                             answer.body;
    for (size_t at = 0; at < text.size();) {
      const ssize_t sent = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<size_t>(sent);
    }
  }

  const Answers answers_;
  std::atomic<bool> done_ = false;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace nxdkit::testing_util
