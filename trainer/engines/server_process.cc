#include "trainer/engines/server_process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "lib/base/errors.h"
#include "lib/system/process.h"

namespace nxdkit::trainer {
namespace {

constexpr auto kServerGrace = std::chrono::seconds(30);
constexpr auto kServerRest = std::chrono::seconds(2);  // for its remaining output

void Fill(std::string& word, std::string_view name, const std::string& value) {
  for (size_t at = word.find(name); at != std::string::npos; at = word.find(name, at)) {
    word.replace(at, name.size(), value);
    at += value.size();
  }
}

}  // namespace

Result<int> FreePort() {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!probe.is_open() || ::bind(probe.fd(), any, size) != 0 ||
      ::getsockname(probe.fd(), any, &size) != 0)
    return OutputError("find a free port", errno);
  return ntohs(address.sin_port);
}

std::vector<std::string> FilledCommand(const OtherEngine& other, const std::string& model,
                                       int port) {
  const std::pair<std::string_view, std::string> values[] = {
      {"{model}", model},
      {"{port}", std::to_string(port)},
      {"{name}", other.version},
      {"{tp}", std::to_string(other.tp)},
      {"{dtype}", std::string(TorchName(other.dtype))},
      {"{max_model_len}", std::to_string(other.seq_len)},
      {"{max_num_seqs}", std::to_string(other.in_flight)},
      {"{logprobs_mode}", other.temperature == 1 ? "raw_logprobs" : "processed_logprobs"}};
  std::vector<std::string> words = other.command;
  for (std::string& word : words)
    for (const auto& [name, value] : values) Fill(word, name, value);
  return words;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& defaults) {
  std::vector<std::string> environment = WholeEnvironment();
  for (const std::string& variable : defaults)
    if (std::ranges::none_of(environment, [&](const std::string& own) {
          return VariableName(own) == VariableName(variable);
        }))
      environment.push_back(variable);
  return environment;
}

Result<ServerProcess> ServerProcess::Start(const std::vector<std::string>& command,
                                           const std::vector<std::string>& variables) {
  const std::optional<std::string> program = FindProgram(command[0]);
  if (!program)
    return NotFound("no such program, or it may not be executed")
        .in(command[0])
        .member("worker.rollout.command");
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = *program,
                                                 .words = command,
                                                 .environment = EnvironmentWith(variables),
                                                 .in = nothing.fd(),
                                                 .out = STDERR_FILENO,
                                                 .signal_with_parent = SIGKILL}));
  std::optional<Keeper> keeper = Keeper::Start(process);
  return ServerProcess(std::move(process), std::move(keeper));
}

// Only the server itself is asked: its own processes, asked at the same time, would be gone before
// it could stop them in order, and it would leave shared memory behind (vLLM 0.32).
ServerProcess::~ServerProcess() {
  if (process_.pid() < 0) return;  // moved from
  if (!process_.HasEnded()) ::kill(process_.pid(), SIGTERM);
  process_.WaitForEnd(kServerGrace);
  process_.End(kServerRest);
}

std::string ServerProcess::EndText() {
  process_.Kill();
  return process_.EndText();
}

}  // namespace nxdkit::trainer
