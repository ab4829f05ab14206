#include "trainer/comm/heartbeat.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/comm/messages.h"

namespace nxdkit::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// The limit before process 0 has sent its own; MPI may start later there.
constexpr auto kFirstBeat = std::chrono::minutes(10);
// The number of periods that other processes have to learn that the run is over.
constexpr int kFarewell = 6;

}  // namespace

struct Heartbeat::State {
  State(Transport& transport_in, Options options_in)
      : transport(transport_in),
        options(std::move(options_in)),
        links(transport.process() == 0 ? transport.processes() - 1 : 1) {
    for (int peer = 1; transport.process() == 0 && peer <= links; ++peer)
      threads.emplace_back([this, peer] { Lead(peer); });
    if (transport.process() != 0) threads.emplace_back([this] { Follow(); });
  }

  // Alternates between sending and receiving.
  void Lead(int peer) {
    while (true) {
      const Json said = ToSay();
      Status sent = SendMessage(transport, peer, kBeatChannel, said, Limit(options.silence));
      if (!sent.ok()) return Ended(sent.error());
      const Result<Json> heard =
          ReceiveMessage(transport, peer, kBeatChannel, Limit(options.silence));
      if (!heard.ok()) return Ended(heard.error());
      if (heard->contains("error")) return Ended(ErrorOfMessage((*heard)["error"]), false);
      if (const int signal = heard->value("signal", 0); signal != 0 && options.on_signal)
        options.on_signal(signal);
      if (said.contains("end") || said.contains("error")) return Ended(std::nullopt);
      Sleep();
    }
  }

  void Follow() {
    std::chrono::milliseconds silence = kFirstBeat;
    while (true) {
      const Result<Json> heard = ReceiveMessage(transport, 0, kBeatChannel, Limit(silence));
      if (!heard.ok()) return Ended(heard.error());
      silence = std::chrono::milliseconds(heard->value("silence", int64_t{0}));
      Json said = ToSay();
      if (const int signal = options.take_signal ? options.take_signal() : 0; signal != 0)
        said["signal"] = signal;
      Status sent = SendMessage(transport, 0, kBeatChannel, said, Limit(silence));
      if (!sent.ok()) return Ended(sent.error());
      if (heard->contains("error")) return Ended(ErrorOfMessage((*heard)["error"]), false);
      if (heard->contains("end") || said.contains("error")) return Ended(std::nullopt);
    }
  }

  Transport::Waiting Limit(std::chrono::milliseconds silence) const {
    return {&cut_off, silence, Transport::Pace::kIdle};
  }

  Json ToSay() {
    const std::scoped_lock lock(mutex);
    Json said = {{"silence", options.silence.count()}};
    if (failure) said["error"] = ErrorMessage(*failure);
    if (ending) said["end"] = true;
    return said;
  }

  void Sleep() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, options.period, [&] { return failure || ending; });
  }

  // Called at the end of one link. `own`: this process saw the error.
  void Ended(std::optional<Error> error, bool own = true) {
    std::unique_lock lock(mutex);
    ++ended;
    changed.notify_all();
    // Another link of this process, or the caller of Fail or End, is already handling it.
    if (!error || failure || ending || cut_off) return;
    failure = error;
    changed.notify_all();
    // The others learn of it from here; those that cannot be reached find out by themselves.
    if (transport.process() == 0) WaitForLinks(lock);
    lock.unlock();
    if (options.on_lost) options.on_lost(*error, own);
  }

  // Waits, for a limited time, until all links have sent what they have to send.
  void WaitForLinks(std::unique_lock<std::mutex>& lock) {
    changed.wait_for(lock, options.period * kFarewell, [&] { return ended == links; });
  }

  void CutOff(std::unique_lock<std::mutex>& lock) {
    changed.notify_all();
    WaitForLinks(lock);
    cut_off = true;
  }

  Transport& transport;
  const Options options;
  const int links;
  std::atomic<bool> cut_off{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Error> failure;
  bool ending = false;
  int ended = 0;                      // number of links that ended
  std::vector<std::jthread> threads;  // last: they use everything above
};

Heartbeat::Heartbeat(Transport& transport, Options options)
    : state_(std::make_unique<State>(transport, std::move(options))) {}

Heartbeat::~Heartbeat() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.ending = true;
  s.CutOff(lock);
}

void Heartbeat::Fail(const Error& error) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!s.failure) s.failure = error;
  s.CutOff(lock);
}

void Heartbeat::End() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.transport.process() == 0) s.ending = true;
  s.changed.notify_all();
  s.changed.wait(lock, [&] { return s.ended == s.links; });
}

}  // namespace nxdkit::trainer
