// PRIVATE to trainer/engines. A server that is started for a run, watched, and stopped with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/system/child.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// A TCP port of the loopback interface that was free a moment ago.
Result<int> FreePort();

// The words of OtherEngine::command with replacements for {model}, {port}, {name}, {tp}, {dtype},
// {max_model_len}, {max_num_seqs} and {logprobs_mode}; other braces stay.
std::vector<std::string> FilledCommand(const OtherEngine& other, const std::string& model,
                                       int port);

// Our environment, plus those of `defaults` ("NAME=value") that it does not set.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& defaults);

// Its standard output and error go to our standard error. Move-only; stopped with the object.
class ServerProcess {
 public:
  // `variables`: "NAME=value", used where our environment does not set them. kNotFound when there
  // is no such program.
  static Result<ServerProcess> Start(const std::vector<std::string>& command,
                                     const std::vector<std::string>& variables);
  ServerProcess(ServerProcess&&) noexcept = default;
  ServerProcess& operator=(ServerProcess&&) = delete;
  // Asks it to stop, and kills it half a minute later, together with all that it has started.
  ~ServerProcess();

  bool HasEnded() const { return process_.HasEnded(); }
  std::string EndText();  // if it has ended: "exited with 1"

 private:
  ServerProcess(Process process, std::optional<Keeper> keeper)
      : process_(std::move(process)), keeper_(std::move(keeper)) {}
  Process process_;
  std::optional<Keeper> keeper_;
};

}  // namespace nxdkit::trainer
