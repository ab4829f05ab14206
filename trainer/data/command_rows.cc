#include "trainer/data/command_rows.h"

#include <fmt/core.h>
#include <poll.h>

#include <optional>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/system/child.h"
#include "lib/system/last_words.h"
#include "lib/system/process.h"
#include "lib/system/signals.h"
#include "trainer/data/table_program.h"

namespace nxdkit::trainer {
namespace {

constexpr int kPollMilliseconds = 100;  // the latest that an interruption is noticed
constexpr int kNoPyarrow = 69;          // the exit code of table_rows.py

class Lines {
 public:
  Lines(const RowCommand& command, const EachRow& each) : command_(command), each_(each) {}

  Status Run(Child& child) {
    child.in.Close();
    while (!ended_) {
      NXDKIT_TRY(Patient(child));
      pollfd waiting[] = {{child.out.fd(), POLLIN, 0},
                          {child.err.is_open() ? child.err.fd() : -1, POLLIN, 0}};
      ::poll(waiting, 2, kPollMilliseconds);
      if (waiting[1].revents != 0) words.Read(child);
      if (waiting[0].revents != 0) NXDKIT_TRY(Read(child));
    }
    if (!rest_.empty()) NXDKIT_TRY(Take(rest_));
    // Its output has ended: the program will end too.
    while (!child.process.WaitForEnd(std::chrono::milliseconds(kPollMilliseconds)))
      NXDKIT_TRY(Patient(child));
    child.End();
    words.Read(child);
    return OkStatus();
  }

  uint64_t count() const { return count_; }
  LastWords words;

 private:
  Status Patient(Child& child) {
    NXDKIT_TRY(StopIfInterrupted());
    const double patience = std::chrono::duration<double>(command_.patience).count();
    if (silent_.Seconds() < patience) return OkStatus();
    words.Read(child);
    const char* what = ended_ ? "closed its output and has not ended" : "said nothing";
    return words.AddTo(Error(Errc::kIo, fmt::format("the program has {} for {} s after {} rows",
                                                    what, patience, count_)));
  }

  Status Read(Child& child) {
    const std::optional<std::string_view> some = ReadSome(child.out, buffer_);
    if (!some) return OkStatus();
    silent_ = Stopwatch();
    ended_ = some->empty();
    for (std::string_view left = *some; !left.empty();) {
      const size_t end = left.find('\n');
      rest_ += left.substr(0, end);
      if (rest_.size() > kMaxRowBytes)
        return OverLimit("{} {}: a row is over the limit of {} bytes", command_.what, count_ + 1,
                         kMaxRowBytes);
      if (end == std::string_view::npos) break;
      NXDKIT_TRY(Take(rest_));
      rest_.clear();
      left.remove_prefix(end + 1);
    }
    return OkStatus();
  }

  Status Take(std::string_view line) {
    ++count_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return OkStatus();
    return ReadRow(line, command_.what, count_, each_);
  }

  const RowCommand& command_;
  const EachRow& each_;
  char buffer_[1 << 16];
  std::string rest_;
  uint64_t count_ = 0;
  bool ended_ = false;
  Stopwatch silent_;
};

struct CommandEnd {
  int exit_code = 0;
  std::string text;  // "exited with 3"
  uint64_t rows = 0;
  LastWords words;
};

Result<CommandEnd> RunForRows(const RowCommand& command, std::vector<std::string> environment,
                              const EachRow& each) {
  const std::optional<std::string> program = FindProgram(command.words[0]);
  if (!program) return NotFound("no such program, or it may not be executed").in(command.words[0]);
  NXDKIT_ASSIGN(Child child, StartChild({.program = *program,
                                         .words = command.words,
                                         .environment = std::move(environment)}));
  Lines lines(command, each);
  NXDKIT_TRY(lines.Run(child).in(command.source));
  return CommandEnd{child.process.exit_code(), child.process.EndText(), lines.count(), lines.words};
}

Status Check(const RowCommand& command, const CommandEnd& end) {
  if (end.exit_code == 0) return OkStatus();
  return end.words
      .AddTo(Error(Errc::kIo, fmt::format("the program {} after {} rows", end.text, end.rows)))
      .in(command.source);
}

}  // namespace

Status ReadCommandRows(const RowCommand& command, const EachRow& each) {
  if (command.words.empty()) return BadUsage("no program is named").in(command.source);
  NXDKIT_ASSIGN(const CommandEnd end, RunForRows(command, WholeEnvironment(), each));
  return Check(command, end);
}

Status ReadTableRows(const std::string& path, const TableColumns& columns, const EachRow& each) {
  constexpr std::string_view kHint =
      "python3 -m pip install pyarrow (it is searched in the packages of the system or of the "
      "virtual environment, in ~/.local, and in absolute paths of PYTHONPATH), or name a program "
      "that prints the rows as JSON Lines: exec:COMMAND";
  // Isolated: otherwise a json.py in the working directory would replace Python's own.
  RowCommand command = {.words = {"python3", "-I", "-B", "-c", std::string(kTableProgram), path},
                        .source = path,
                        .what = "row"};
  command.words.insert(command.words.end(),
                       {columns.prompt, columns.answer, std::to_string(columns.media.size())});
  for (const std::vector<std::string>* names : {&columns.media, &columns.others})
    command.words.insert(command.words.end(), names->begin(), names->end());
  if (!FindProgram(command.words[0]))
    return Unsupported("tables are read by python3 with pyarrow, and there is no python3")
        .in(path)
        .hint(kHint);
  NXDKIT_ASSIGN(const CommandEnd end,
                RunForRows(command, WithoutRelativePlaces(WholeEnvironment()), each));
  if (end.exit_code == kNoPyarrow)
    return Unsupported("tables are read by python3 with pyarrow, which it does not have")
        .in(path)
        .hint(kHint);
  return Check(command, end);
}

}  // namespace nxdkit::trainer
