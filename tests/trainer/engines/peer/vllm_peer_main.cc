// A server as a run starts one: vllm-peer PORT FOLDER [FAULT...]. Faults, for the tests of its
// users: `exits`: before it answers; `dies-at N`: at the N-th request for tokens; `silent`: it
// never answers; `hangs-at PATH FILE`: PATH is not answered, and FILE is made on a request for it;
// `log FOLDER`: requests are written to a file there with the port as its name; `once FILE`: the
// faults before it apply only while FILE does not exist, which is then made. `neuron LENGTH`: like
// an older vLLM on Neuron devices that serves a bundle: sequences of so many tokens, only
// completions, no log-probabilities, and no way to query its weights. `workers N`: like vLLM Neuron
// on N ranks with a worker extension that reports digests of its parameters, and no other way to
// query them.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/trainer/engines/vllm_peer.h"

namespace nxdkit::trainer {
namespace {

struct Faults {
  bool exits = false, silent = false;
  int workers = 0;
  int dies_at = 0;
  int neuron = 0;
  std::string hangs_at, hangs, log;
};

Faults ReadFaults(int count, char** words) {
  Faults faults;
  for (int i = 3; i < count; ++i) {
    const std::string word = words[i];
    if (word == "exits") faults.exits = true;
    if (word == "silent") faults.silent = true;
    if (word == "workers") faults.workers = std::atoi(words[++i]);
    if (word == "dies-at") faults.dies_at = std::atoi(words[++i]);
    if (word == "neuron") faults.neuron = std::atoi(words[++i]);
    if (word == "log") faults.log = words[++i];
    if (word == "hangs-at") {
      faults.hangs_at = words[++i];
      faults.hangs = words[++i];
    }
    if (word == "once" && ::open(words[++i], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666) < 0)
      faults = {};
  }
  return faults;
}

// Two tokens and an end, or the one token of a server's trial request; log-probabilities are not
// given.
VllmPeer::Answer Completion(const Json& body) {
  if (!body["logprobs"].is_null())
    return {.status = 400, .body = R"({"error":{"message":"no logprobs on this device"}})"};
  const Json& stops = body["stop_token_ids"];
  std::vector<int> ids = {VllmPeer::kToken};
  if (!stops.empty()) ids = {VllmPeer::kToken, VllmPeer::kToken + 1, stops[0].get<int>()};
  Json choices = Json::array();
  for (int i = 0; i < body["n"].get<int>(); ++i)
    choices.push_back({{"index", i},
                       {"finish_reason", stops.empty() ? "length" : "stop"},
                       {"logprobs", nullptr},
                       {"token_ids", ids}});
  return {.body = Json{{"choices", choices}}.dump()};
}

std::optional<VllmPeer::Answer> SayAsOnNeuron(int length, const std::string& path,
                                              const Json& body) {
  if (path == "/v1/models")
    return VllmPeer::Answer{.body =
                                Json{{"data", {{{"id", "m"}, {"max_model_len", length}}}}}.dump()};
  if (path == "/v1/completions") return Completion(body);
  if (path == "/health" || path == "/version") return std::nullopt;
  return VllmPeer::Answer{.status = 404, .body = R"({"detail":"Not Found"})"};
}

std::optional<VllmPeer::Answer> SayAsWithExtension(int ranks, const std::string& folder,
                                                   const std::string& path, const Json& body) {
  if (path == "/collective_rpc" && body["method"] == "compute_weight_checksums") {
    std::vector<Json> results(static_cast<size_t>(ranks), Json::object());
    for (const auto& [key, digest] : PredictedOnNeuron(folder, ranks))
      results[static_cast<size_t>(vllm_neuron::ParseParamKey(key)->core.rank)][key] = digest;
    return VllmPeer::Answer{.body = Json{{"results", results}}.dump()};
  }
  if (path == "/collective_rpc")
    return VllmPeer::Answer{.status = 500, .body = R"({"detail":"no such method"})"};
  if (path == "/weight_checker" || path == "/pause" || path == "/update_weight_version")
    return VllmPeer::Answer{.status = 404, .body = R"({"detail":"Not Found"})"};
  return std::nullopt;
}

int Serve(int count, char** words) {
  const Faults faults = ReadFaults(count, words);
  if (faults.exits) return 3;
  if (faults.silent) {
    ::pause();
    return 0;
  }
  // A child, like a real server's: it must not be left behind.
  if (::fork() == 0) {
    ::pause();
    ::_exit(0);
  }
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  int asked = 0;
  const VllmPeer::Fault fault = [&](const std::string& path, const Json& body) {
    const bool probe = path == "/inference/v1/generate" && body.value("token_ids", Json()).empty();
    if (path == "/inference/v1/generate" && !probe && ++asked == faults.dies_at) ::_exit(7);
    if (!faults.log.empty())
      std::ofstream(faults.log + "/" + words[1], std::ios::app) << path << "\n";
    if (path == faults.hangs_at && !probe) {
      std::ofstream(faults.hangs).flush();
      ::pause();
    }
    if (faults.neuron > 0) return SayAsOnNeuron(faults.neuron, path, body);
    if (faults.workers > 0) return SayAsWithExtension(faults.workers, words[2], path, body);
    return std::optional<VllmPeer::Answer>();
  };
  const VllmPeer peer(faults.neuron > 0 || faults.workers > 0 ? "" : words[2], std::atoi(words[1]),
                      fault);
  int signal = 0;
  ::sigwait(&term, &signal);
  ::_exit(0);  // whatever a request is waiting for
}

}  // namespace
}  // namespace nxdkit::trainer

int main(int count, char** words) { return count < 3 ? 2 : nxdkit::trainer::Serve(count, words); }
