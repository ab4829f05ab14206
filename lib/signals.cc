#include "lib/signals.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>

namespace nxdkit {
namespace {

// The one global with state: a signal handler can reach nothing else.
std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void OnSignal(int signal) {
  int none = 0;
  g_signal.compare_exchange_strong(none, signal);
}

}  // namespace

void InstallSignalHandlers() {
  std::signal(SIGCHLD, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction old;
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART | SA_RESETHAND;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

std::optional<int> Interrupted() {
  const int signal = g_signal.load(std::memory_order_relaxed);
  return signal == 0 ? std::nullopt : std::optional<int>(signal);
}

Status StopIfInterrupted() {
  const std::optional<int> signal = Interrupted();
  if (!signal) return OkStatus();
  return Error(Errc::kInterrupted,
               fmt::format("stopped by {}", *signal == SIGINT ? "SIGINT" : "SIGTERM"));
}

void ClearInterrupted() { g_signal = 0; }

}  // namespace nxdkit
