#include "formats/vllm/client.h"

#include <chrono>
#include <thread>

#include "formats/vllm/ask.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/net/http.h"

namespace nxdkit::vllm {
namespace {

constexpr int kGood = 200;
constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kNotValid = 422;
constexpr int kTooMany = 429;
constexpr int kMostResets = 100;
constexpr auto kBetweenResets = std::chrono::milliseconds(50);
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

HttpRequest RequestTo(const Server& server, std::string_view path, const std::string& body,
                      bool post) {
  HttpRequest request{.url = UrlOf(server, path), .body = body, .post = post};
  request.seconds = server.seconds;
  request.poll = server.poll;
  return request;
}

Result<Json> AnswerOf(const HttpRequest& request, std::string_view path) {
  NXDKIT_ASSIGN(const HttpAnswer answer, Http(request));
  if (answer.status == kNotFound)
    return Unsupported("the server has no {}", path)
        .in(request.url)
        .hint("a vLLM server has it when it is started with VLLM_SERVER_DEV_MODE=1");
  if (answer.status != kGood) {
    const bool refused = answer.status / 100 == 4 && answer.status != kTooMany;
    return Error(refused ? Errc::kUnsupported : Errc::kIo,
                 fmt::format("the server answers {}: {}", answer.status, WordsOf(answer)))
        .in(request.url);
  }
  if (answer.body.empty()) return Json::object();
  Result<Json> json = ParseJson(answer.body);
  if (!json.ok() || !json->is_object())
    return Corrupt("the answer is not a JSON object: {}",
                   EscapeControl(answer.body.substr(0, kMostShown)))
        .in(request.url);
  return json;
}

// A POST without a body.
Status Tell(const Server& server, std::string_view path) {
  NXDKIT_TRY(AnswerOf(RequestTo(server, path, "", true), path));
  return OkStatus();
}

bool IsDigest(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().size() == kDigits &&
         value.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") ==
             std::string::npos;
}

}  // namespace

Result<Json> Ask(const Server& server, std::string_view path, const std::string& body) {
  return AnswerOf(RequestTo(server, path, body, !body.empty()), path);
}

Result<std::map<std::string, std::string>> ReadDigests(const Json& digests) {
  if (!digests.is_object()) return Corrupt("digests are {}", JsonTypeText(digests));
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : digests.items()) {
    if (!IsDigest(value))
      return Corrupt("found {}, expected 64 hexadecimal digits",
                     EscapeControl(value.dump().substr(0, kMostShown)))
          .member(EscapeControl(key));
    out.emplace(key, value.get<std::string>());
  }
  return out;
}

Result<bool> HasEndpoint(const Server& server, std::string_view path) {
  const HttpRequest request = RequestTo(server, path, "{}", true);
  NXDKIT_ASSIGN(const HttpAnswer answer, Http(request));
  if (answer.status / 100 == 5)
    return Error(Errc::kIo,
                 fmt::format("the server answers {}: {}", answer.status, WordsOf(answer)))
        .in(request.url);
  return answer.status / 100 == 2 || answer.status == kBadRequest || answer.status == kNotValid;
}

Status CheckHealth(const Server& server) {
  const HttpRequest request = RequestTo(server, "/health", "", false);
  NXDKIT_ASSIGN(const HttpAnswer answer, Http(request));
  if (answer.status == kGood) return OkStatus();
  return Error(answer.status == kNotFound ? Errc::kUnsupported : Errc::kIo,
               fmt::format("the server answers {}", answer.status))
      .in(request.url);
}

Result<ServedModel> AskModel(const Server& server) {
  constexpr std::string_view kPath = "/v1/models";
  NXDKIT_ASSIGN(const Json json, Ask(server, kPath));
  const Result<const Json*> models = JsonArray(json, "data");
  if (!models.ok() || (*models)->empty() || !(**models)[0].is_object())
    return Corrupt("the answer names no model").in(UrlOf(server, kPath));
  const Json& first = (**models)[0];
  ServedModel served;
  NXDKIT_ASSIGN(served.name, JsonString(first, "id"));
  if (const Result<int64_t> most = JsonInt(first, "max_model_len"); most.ok())
    served.max_model_len = *most;
  return served;
}

Result<bool> CanReload(const Server& server) {
  const Result<Json> paused = Ask(server, "/is_paused");
  if (paused.ok()) return true;
  if (paused.error().code() == Errc::kUnsupported) return false;
  return paused.error();
}

Status Pause(const Server& server) { return Tell(server, "/pause?mode=abort&clear_cache=true"); }

Status ReloadWeights(const Server& server, const std::string& folder) {
  const Json call = {{"method", "reload_weights"}, {"kwargs", {{"weights_path", folder}}}};
  NXDKIT_TRY(
      Ask(server, "/collective_rpc", call.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return OkStatus();
}

Status ResetPrefixCache(const Server& server) {
  constexpr std::string_view kPath = "/reset_prefix_cache";
  for (int tried = 0; tried < kMostResets; ++tried) {
    NXDKIT_ASSIGN(const Json json, AnswerOf(RequestTo(server, kPath, "", true), kPath));
    const Result<bool> done = JsonBool(json, "success");
    if (!done.ok() || *done) return OkStatus();  // older servers only answer
    if (server.poll) NXDKIT_TRY(server.poll());
    std::this_thread::sleep_for(kBetweenResets);
  }
  return Error(Errc::kIo, "the server keeps its prefix cache: requests still hold blocks of it")
      .in(UrlOf(server, kPath));
}

Status SetWeightVersion(const Server& server, const std::string& version) {
  const Json body = {{"new_version", version}};
  NXDKIT_TRY(Ask(server, "/update_weight_version", body.dump()));
  return OkStatus();
}

Status Resume(const Server& server) { return Tell(server, "/resume"); }

Result<std::string> AskVersion(const Server& server) {
  NXDKIT_ASSIGN(const Json json, Ask(server, "/version"));
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
  auto digests = ReadDigests(*checksums);
  if (!digests.ok()) return Error(digests.error()).in(UrlOf(server, kPath));
  return digests;
}

}  // namespace nxdkit::vllm
