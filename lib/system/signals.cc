#include "lib/system/signals.h"

#include <fmt/core.h>

#include <atomic>
#include <csignal>

namespace nxdkit {
namespace {

// The only globals with state: a signal handler can reach nothing else.
std::atomic<int> g_signal{0};
std::atomic<bool> g_save{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void OnSignal(int signal) {
  int none = 0;
  g_signal.compare_exchange_strong(none, signal);
}

extern "C" void OnSaveSignal(int) { g_save = true; }

void SetHandler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void InstallSignalHandlers() {
  std::signal(SIGCHLD, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction old;
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    SetHandler(signal, OnSignal, SA_RESTART | SA_RESETHAND);
  }
}

void OutliveTermSignals() {
  struct sigaction old;
  if (::sigaction(SIGTERM, nullptr, &old) != 0 || old.sa_handler != OnSignal) return;
  SetHandler(SIGTERM, OnSignal, SA_RESTART);
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

void TakeForeignSignal(int signal) {
  if (signal == SIGUSR1) return OnSaveSignal(signal);
  OnSignal(signal);
}

void InstallSaveSignal() { SetHandler(SIGUSR1, OnSaveSignal, SA_RESTART); }

bool TakeSaveRequest() { return g_save.exchange(false); }

void IgnoreSaveSignal() { SetHandler(SIGUSR1, SIG_IGN, 0); }

}  // namespace nxdkit
