#include "formats/vllm/client.h"

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/net/http.h"

namespace nxdkit::vllm {
namespace {

constexpr int kGood = 200;
constexpr int kNotFound = 404;
constexpr size_t kMostShown = 300;  // of a server's words
constexpr size_t kDigits = 64;

// Three shapes: {"error": {"message": ..}}, {"error": "text"}, {"detail": ..}.
std::string WordsOf(const HttpAnswer& answer) {
  const Result<Json> json = ParseJson(answer.body);
  std::string words = answer.body;
  if (json.ok() && json->is_object()) {
    const Json* error = JsonFind(*json, "error");
    const Json* message = error && error->is_object() ? JsonFind(*error, "message") : error;
    if (!message) message = JsonFind(*json, "detail");
    if (message) words = message->is_string() ? message->get<std::string>() : message->dump();
  }
  return EscapeControl(words.substr(0, kMostShown));
}

std::string UrlOf(const Server& server, std::string_view path) {
  std::string url = server.url;
  while (url.ends_with('/')) url.pop_back();
  return url + std::string(path);
}

Result<Json> Ask(const Server& server, std::string_view path, const std::string& body) {
  HttpRequest request{.url = UrlOf(server, path), .body = body, .post = !body.empty()};
  request.seconds = server.seconds;
  request.poll = server.poll;
  NXDKIT_ASSIGN(const HttpAnswer answer, Http(request));
  if (answer.status == kNotFound)
    return Unsupported("the server has no {}", path)
        .in(request.url)
        .hint("a vLLM server has it when it is started with VLLM_SERVER_DEV_MODE=1");
  if (answer.status != kGood)
    return Error(Errc::kIo,
                 fmt::format("the server answers {}: {}", answer.status, WordsOf(answer)))
        .in(request.url);
  Result<Json> json = ParseJson(answer.body);
  if (!json.ok() || !json->is_object())
    return Corrupt("the answer is not a JSON object: {}",
                   EscapeControl(answer.body.substr(0, kMostShown)))
        .in(request.url);
  return json;
}

bool IsDigest(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().size() == kDigits &&
         value.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") ==
             std::string::npos;
}

}  // namespace

Result<std::string> AskVersion(const Server& server) {
  NXDKIT_ASSIGN(const Json json, Ask(server, "/version", ""));
  const Json* version = JsonFind(json, "version");
  if (!version || !version->is_string())
    return Corrupt("the answer names no version").in(UrlOf(server, "/version"));
  return version->get<std::string>();
}

Result<std::map<std::string, std::string>> AskChecksums(const Server& server) {
  constexpr std::string_view kPath = "/weight_checker";
  NXDKIT_ASSIGN(const Json json, Ask(server, kPath, R"({"action":"checksum"})"));
  const Json* checksums = JsonFind(json, "checksums");
  if (!checksums || !checksums->is_object())
    return Corrupt("the answer has no checksums").in(UrlOf(server, kPath));
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : checksums->items()) {
    if (!IsDigest(value))
      return Corrupt("found {}, expected 64 hexadecimal digits",
                     EscapeControl(value.dump().substr(0, kMostShown)))
          .in(UrlOf(server, kPath))
          .member(key);
    out.emplace(key, value.get<std::string>());
  }
  return out;
}

}  // namespace nxdkit::vllm
