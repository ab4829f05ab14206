#include "lib/system/run_program.h"

#include <fmt/core.h>
#include <poll.h>

#include <array>

#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/system/child.h"
#include "lib/system/last_words.h"

namespace nxdkit {
namespace {

constexpr int kMostWaitMilliseconds = 50;

void WaitForOutput(const Child& child) {
  std::array<pollfd, 2> ends = {{{child.out.is_open() ? child.out.fd() : -1, POLLIN, 0},
                                 {child.err.is_open() ? child.err.fd() : -1, POLLIN, 0}}};
  ::poll(ends.data(), ends.size(), kMostWaitMilliseconds);
}

// Reads all that is there now. The size limit stops a program that prints for ever.
Status ReadOutput(Child& child, size_t max_bytes, std::string& text) {
  char buffer[1 << 16];
  while (child.out.is_open()) {
    const std::optional<std::string_view> some = ReadSome(child.out, buffer);
    if (!some) break;
    if (some->empty()) child.out.Close();
    if (some->size() > max_bytes - text.size())
      return OverLimit("it prints more than {} bytes", max_bytes);
    text += *some;
  }
  return OkStatus();
}

Status WaitForEnd(const ProgramRun& run, Child& child, LastWords& words, std::string& text) {
  const Stopwatch watch;
  const double most = std::chrono::duration<double>(run.most).count();
  while (true) {
    const bool ended = child.process.HasEnded();  // asked first: its output is in the pipes then
    words.Read(child);
    NXDKIT_TRY(ReadOutput(child, run.max_bytes, text));
    if (ended) return OkStatus();
    if (run.poll) NXDKIT_TRY(run.poll());
    if (watch.Seconds() > most)
      return words.AddTo(
          Error(Errc::kIo, fmt::format("it has not ended after {:g} seconds", most)));
    WaitForOutput(child);
  }
}

}  // namespace

Result<std::string> OutputOf(const ProgramRun& run) {
  NXDKIT_ASSIGN(
      Child child,
      StartChild({.program = run.program, .words = run.words, .environment = run.environment}));
  child.in.Close();
  LastWords words;
  std::string text;
  const Status ended = WaitForEnd(run, child, words, text);
  child.process.Kill();  // with the processes that it left running
  if (!ended.ok()) return ended.error();
  words.Read(child);
  if (child.process.exit_code() != 0)
    return words.AddTo(Error(Errc::kIo, "it " + child.process.EndText()));
  return text;
}

}  // namespace nxdkit
