#include "trainer/base/core_share.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace nxdkit::trainer {
namespace {

constexpr CoreShare::Time kLook = std::chrono::milliseconds(10);
constexpr CoreShare::Time kShortHold = std::chrono::milliseconds(500);
constexpr CoreShare::Time kLongHold = std::chrono::milliseconds(4000);
// The average number of waiting threads that is too much. A program that never rests takes a third
// of a core or more (measured: 0.3 to 1, over windows of 10 ms); on a quiet machine the average is
// 0 to 0.3, and never that much twice in a row.
constexpr double kMuch = 0.3;

// The second number of schedstat, in nanoseconds.
long long WaitedOf(int folder, const char* task) {
  char path[sizeof(dirent::d_name) + 16], text[128];
  std::snprintf(path, sizeof path, "%s/schedstat", task);
  const int fd = ::openat(folder, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;  // it has ended
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  char* second = nullptr;
  std::strtoll(text, &second, 10);
  return std::strtoll(second, nullptr, 10);
}

CoreShare::Time WaitedSoFar() {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/task"));
  if (!folder || ::access("/proc/self/schedstat", R_OK) != 0) return CoreShare::Time(-1);
  long long sum = 0;
  while (const dirent* entry = ::readdir(folder.get()))
    if (entry->d_name[0] != '.') sum += WaitedOf(::dirfd(folder.get()), entry->d_name);
  return CoreShare::Time(sum);
}

CoreShare::Time Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

CoreShare::CoreShare(int threads) : CoreShare(threads, {Now, WaitedSoFar}) {}

CoreShare::CoreShare(int threads, Probe probe)
    : all_(threads), now_(threads), probe_(std::move(probe)), hold_(kShortHold) {
  if (all_ == 1) return;
  looked_ = probe_.now();
  waited_ = probe_.waited();
  if (waited_ < Time(0)) all_ = 1;  // nothing to judge: now_ stays
}

int CoreShare::Threads() {
  if (all_ == 1) return now_;
  const Time time = probe_.now();
  const Time since = time - looked_;
  // With one thread there is nothing to judge until all threads are tried again.
  if (since < kLook || (now_ == 1 && time < held_until_)) return now_;
  const Time waited = probe_.waited();
  const double waiting =
      static_cast<double>((waited - waited_).count()) / static_cast<double>(since.count());
  looked_ = time;
  waited_ = waited;
  if (now_ < all_ && time >= held_until_) {
    now_ = all_;  // a new try, judged at the next look
    return now_;
  }
  Judge(waiting);
  return now_;
}

// `waiting`: the average number of our threads waiting for a processor since the last look.
void CoreShare::Judge(double waiting) {
  const bool all = now_ == all_;
  const bool again = std::exchange(much_, waiting > kMuch);
  if (much_ && !again) return;
  if (much_) {
    much_ = false;
    now_ = std::max(1, now_ - static_cast<int>(std::ceil(waiting)));
    if (all) held_until_ = looked_ + hold_;
    if (all) hold_ = std::min(2 * hold_, kLongHold);
  } else if (all) {
    hold_ = kShortHold;
  }
}

}  // namespace nxdkit::trainer
