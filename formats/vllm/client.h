// Requests to a running vLLM server (its HTTP interface, vLLM 0.32; the endpoints under
// VLLM_SERVER_DEV_MODE=1 do not exist otherwise).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::vllm {

struct Server {
  std::string url;       // "http://127.0.0.1:8000"
  double seconds = 600;  // for one request
  std::function<Status()> poll = {};
};

// GET /health. kIo for a server that is not up yet, or whose engine is known to be dead; one with
// damaged weights is healthy. kUnsupported when the path does not exist.
Status CheckHealth(const Server& server);

Result<std::string> AskVersion(const Server& server);  // GET /version: "0.32.0".

struct ServedModel {
  std::string name;
  int64_t max_model_len = 0;  // 0: not reported
};
Result<ServedModel> AskModel(const Server& server);  // GET /v1/models, the first.

// POST /weight_checker: the SHA-256 of every parameter of every rank, 64 lower-case digits, by
// CheckerKey. kUnsupported when the server has no such endpoint; kIo when it fails, with its
// message; kCorrupt for a reply of another form.
Result<std::map<std::string, std::string>> AskChecksums(const Server& server);

// AskChecksums by the workers' method: POST /collective_rpc, which is older, and the only way for a
// server whose workers have it from an extension (vLLM Neuron). One without the method fails.
Result<std::map<std::string, std::string>> AskChecksumsOfWorkers(const Server& server);

// The steps of an update of weights, in this order. A failure of any of them leaves the server in
// an unknown state: it must be stopped.
//
// Whether the server has the endpoints of an update: GET /is_paused.
Result<bool> CanReload(const Server& server);
// Running requests end; later ones wait for Resume. Clears the prefix cache.
Status Pause(const Server& server);
// Loads a Hugging Face folder, on every rank, in place. Its success proves nothing about the
// weights.
Status ReloadWeights(const Server& server, const std::string& folder);
// kIo when it is refused for several seconds: requests that still run hold blocks.
Status ResetPrefixCache(const Server& server);
// Sets a label that every token carries from now on.
Status SetWeightVersion(const Server& server, const std::string& version);
Status Resume(const Server& server);

}  // namespace nxdkit::vllm
