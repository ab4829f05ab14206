#include "lib/system/child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace nxdkit {

std::optional<Keeper> Keeper::Start(const Process& program) {
  constexpr char kShell[] = "/bin/sh";
  constexpr char kScript[] =
      "trap '' HUP INT TERM; exec > /dev/null 2>&1; read -r line; kill -s KILL -- \"-$1\"; "
      "for p in /proc/[0-9]*; do "
      "grep -qF \"$2\" \"$p/environ\" && kill -s KILL \"${p#/proc/}\"; done";
  Result<PipeEnds> life = MakePipe();
  if (!life.ok()) return std::nullopt;
  Result<Process> shell = Process::Start(
      {.program = kShell,
       .words = {kShell, "-c", kScript, kShell, std::to_string(program.pid()), program.mark()},
       .in = life->read.fd()});
  if (!shell.ok()) return std::nullopt;
  return Keeper(std::move(life->write), *std::move(shell));
}

void Child::End(std::chrono::milliseconds grace) {
  in.Close();
  process.WaitForEnd(grace);
  process.End(grace);
}

Result<Child> StartChild(const ChildOptions& options) {
  NXDKIT_ASSIGN(PipeEnds in, MakePipe());
  NXDKIT_ASSIGN(PipeEnds out, MakePipe());
  PipeEnds err;
  if (options.read_errors) NXDKIT_TRY(MakePipe().To(err));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = options.program,
                                                 .words = options.words,
                                                 .environment = options.environment,
                                                 .in = in.read.fd(),
                                                 .out = out.write.fd(),
                                                 .err = err.write.fd(),
                                                 .signal_with_parent = SIGKILL}));
  for (const Descriptor* pipe : {&in.write, &out.read, &err.read})
    if (pipe->is_open()) ::fcntl(pipe->fd(), F_SETFL, ::fcntl(pipe->fd(), F_GETFL) | O_NONBLOCK);
  std::optional<Keeper> keeper = Keeper::Start(process);
  return Child{std::move(process), std::move(in.write), std::move(out.read), std::move(err.read),
               std::move(keeper)};
}

std::optional<std::string_view> ReadSome(const Descriptor& pipe, std::span<char> buffer) {
  ssize_t got;
  do {
    got = ::read(pipe.fd(), buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<size_t>(got));
}

}  // namespace nxdkit
