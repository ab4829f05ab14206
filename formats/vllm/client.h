// Questions to a running vLLM server (its HTTP interface, vLLM 0.32; the endpoints under
// VLLM_SERVER_DEV_MODE=1 are not there otherwise).
#pragma once

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

// GET /version: "0.32.0".
Result<std::string> AskVersion(const Server& server);

// POST /weight_checker: the SHA-256 of every parameter of every rank, 64 lower-case digits, by
// CheckerKey. kUnsupported when the server has no such endpoint; kIo when it cannot answer, with
// its own words; kCorrupt for an answer of another form.
Result<std::map<std::string, std::string>> AskChecksums(const Server& server);

}  // namespace nxdkit::vllm
