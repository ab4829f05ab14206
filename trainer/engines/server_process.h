// PRIVATE to trainer/engines. A server that is started for a run, watched, and ended with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/system/child.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// A TCP port of the loopback interface that nobody listened on just now.
Result<int> FreePort();

// The words of OtherEngine::command with what stands for {model}, {port}, {name}, {tp}, {dtype},
// {max_model_len}, {max_num_seqs} and {logprobs_mode}; other braces stay.
std::vector<std::string> FilledCommand(const OtherEngine& other, const std::string& model,
                                       int port);

// Our environment, and those of `defaults` ("NAME=value") that it does not say.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& defaults);

// Its standard output and error are our standard error. Move-only; ended with the object.
class ServerProcess {
 public:
  // `variables`: "NAME=value", of those that our environment does not say. kNotFound when there is
  // no such program.
  static Result<ServerProcess> Start(const std::vector<std::string>& command,
                                     const std::vector<std::string>& variables);
  ServerProcess(ServerProcess&&) noexcept = default;
  ServerProcess& operator=(ServerProcess&&) = delete;
  // Asked to end, and killed half a minute later, with all that it has started.
  ~ServerProcess();

  bool HasEnded() const { return process_.HasEnded(); }
  std::string EndText();  // of one that has ended: "exited with 1"

 private:
  ServerProcess(Process process, std::optional<Keeper> keeper)
      : process_(std::move(process)), keeper_(std::move(keeper)) {}
  Process process_;
  std::optional<Keeper> keeper_;
};

}  // namespace nxdkit::trainer
