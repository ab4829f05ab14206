// Questions to a running vLLM server (its HTTP interface, vLLM 0.32; the endpoints under
// VLLM_SERVER_DEV_MODE=1 are not there otherwise).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::vllm {

struct Server {
  std::string url;       // "http://127.0.0.1:8000"
  double seconds = 600;  // for one question
  std::function<Status()> poll = {};
};

// GET /health. kIo for a server that is not up yet, or whose engine is known to be dead; one with
// damaged weights is healthy. kUnsupported when there is no such path.
Status CheckHealth(const Server& server);

Result<std::string> AskVersion(const Server& server);  // GET /version: "0.32.0".

struct ServedModel {
  std::string name;
  int64_t max_model_len = 0;  // 0: it does not say
};
Result<ServedModel> AskModel(const Server& server);  // GET /v1/models, the first.

// POST /weight_checker: the SHA-256 of every parameter of every rank, 64 lower-case digits, by
// CheckerKey. kUnsupported when the server has no such endpoint; kIo when it cannot answer, with
// its own words; kCorrupt for an answer of another form.
Result<std::map<std::string, std::string>> AskChecksums(const Server& server);

// The same of the workers' method: POST /collective_rpc, which is older, and which a server whose
// workers have it from an extension answers alone (vLLM Neuron). One that has no such method fails.
Result<std::map<std::string, std::string>> AskChecksumsOfWorkers(const Server& server);

// The parts of an update of weights, in this order. A failure of any of them leaves the server in
// an unknown state: it is to be ended.
//
// Whether the server has the endpoints of an update: GET /is_paused.
Result<bool> CanReload(const Server& server);
// Running requests end; what comes after waits for Resume. Clears the prefix cache.
Status Pause(const Server& server);
// A Hugging Face folder, on every rank, in place. That it succeeds says nothing about the weights.
Status ReloadWeights(const Server& server, const std::string& folder);
// kIo when it is refused for several seconds: blocks are held by requests that still run.
Status ResetPrefixCache(const Server& server);
// A label that every token carries from now on.
Status SetWeightVersion(const Server& server, const std::string& version);
Status Resume(const Server& server);

}  // namespace nxdkit::vllm
