// PRIVATE. One request to a vLLM server, in JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/vllm/client.h"
#include "lib/json/json.h"

namespace nxdkit::vllm {

// Few servers need more for a reply; its tree takes twenty times its bytes in memory.
inline constexpr uint64_t kMostAnswerBytes = uint64_t{1} << 20;

// One request: a POST of `body`, or a GET without one. kLimit for a reply of more than
// `most_bytes`. kUnsupported when the server has no such endpoint (404) or refuses the request
// (other 4xx), kIo when it cannot be reached or fails, each with the server's message; kCorrupt for
// a reply that is not a JSON object. An empty reply is an empty object.
Result<Json> Ask(const Server& server, std::string_view path, const std::string& body = "",
                 uint64_t most_bytes = kMostAnswerBytes);

// {"key": "64 digits", ..}. kCorrupt for another form, with the key as member.
Result<std::map<std::string, std::string>> ReadDigests(const Json& digests);

// Whether the endpoint exists: a POST of an empty object is then refused by the endpoint (400,
// 422), not by the server (403, 404, 405). kIo as in Ask.
Result<bool> HasEndpoint(const Server& server, std::string_view path);

}  // namespace nxdkit::vllm
