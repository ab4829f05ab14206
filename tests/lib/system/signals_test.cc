#include "lib/system/signals.h"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

// In a child: signal dispositions are the process's own.
template <typename Body>
int ExitOfChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFSIGNALED(state) ? 1000 + WTERMSIG(state) : WEXITSTATUS(state);
}

TEST(Signals, NothingCameYet) {
  EXPECT_EQ(Interrupted(), std::nullopt);
  EXPECT_TRUE(StopIfInterrupted().ok());
}

TEST(Signals, FirstSignalSetsTheFlag) {
  for (const int signal : {SIGINT, SIGTERM})
    EXPECT_EQ(ExitOfChild([=] {
                InstallSignalHandlers();
                ::raise(signal);
                return Interrupted().value_or(0);
              }),
              signal);
}

TEST(Signals, TheFirstIsKept) {
  EXPECT_EQ(ExitOfChild([] {
              InstallSignalHandlers();
              ::raise(SIGTERM);
              ::raise(SIGINT);
              return Interrupted().value_or(0);
            }),
            SIGTERM);
}

TEST(Signals, SecondSignalEndsTheProcess) {
  EXPECT_EQ(ExitOfChild([] {
              InstallSignalHandlers();
              ::raise(SIGINT);
              ::raise(SIGINT);
              return 0;
            }),
            1000 + SIGINT);
}

TEST(Signals, ExitCodesOfChildrenAreNotLost) {
  EXPECT_EQ(ExitOfChild([] {
              std::signal(SIGCHLD, SIG_IGN);
              InstallSignalHandlers();
              const pid_t child = ::fork();
              if (child == 0) ::_exit(3);
              int state = 0;
              return ::waitpid(child, &state, 0) == child ? WEXITSTATUS(state) : 100;
            }),
            3);
}

TEST(Signals, WhatWasIgnoredStaysIgnored) {
  EXPECT_EQ(ExitOfChild([] {
              std::signal(SIGINT, SIG_IGN);
              InstallSignalHandlers();
              ::raise(SIGINT);
              return Interrupted().value_or(0);
            }),
            0);
}

TEST(Signals, StatusNamesTheSignal) {
  EXPECT_EQ(ExitOfChild([] {
              InstallSignalHandlers();
              ::raise(SIGTERM);
              const Status status = StopIfInterrupted();
              if (status.ok() || status.error().code() != Errc::kInterrupted) return 1;
              if (status.error().message() != "stopped by SIGTERM") return 2;
              ClearInterrupted();
              return StopIfInterrupted().ok() ? 0 : 3;
            }),
            0);
}

TEST(Signals, ASaveRequestIsTakenOnce) {
  EXPECT_EQ(ExitOfChild([] {
              InstallSaveSignal();
              if (TakeSaveRequest()) return 1;
              for (int i = 0; i < 2; ++i) {
                ::raise(SIGUSR1);
                ::raise(SIGUSR1);
                if (!TakeSaveRequest() || TakeSaveRequest()) return 2;
              }
              IgnoreSaveSignal();
              ::raise(SIGUSR1);
              return TakeSaveRequest() ? 3 : Interrupted().value_or(0);
            }),
            0);
}

}  // namespace
}  // namespace nxdkit
