#include "formats/vllm/client.h"

#include <fmt/core.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "formats/vllm/ask.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/base/text.h"
#include "lib/json/json_stream.h"
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
constexpr size_t kMostShown = 300;  // of a server's message
constexpr size_t kDigits = 64;

// The largest models known here need a tenth of it.
constexpr uint64_t kMostChecksumBytes = uint64_t{32} << 20;
constexpr size_t kMostChecksums = 200'000;
constexpr size_t kMostVersion = 80;
constexpr size_t kEventsBetweenLooks = 1024;

// Three shapes: {"error": {"message": ..}}, {"error": "text"}, {"detail": ..}.
std::string WordsOf(const HttpAnswer& answer) {
  std::string words = answer.body.substr(0, kMostAnswerBytes);
  const Result<Json> json = ParseJson(words);
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
                      bool post, uint64_t most_bytes = kMostAnswerBytes) {
  HttpRequest request{.url = UrlOf(server, path), .body = body, .post = post};
  request.most_bytes = most_bytes;
  request.seconds = server.seconds;
  request.poll = server.poll;
  return request;
}

// The reply of a server that accepted the request.
Result<std::string> GoodAnswerOf(const HttpRequest& request, std::string_view path) {
  NXDKIT_ASSIGN(HttpAnswer answer, Http(request));
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
  return std::move(answer.body);
}

Error NotAnObject(const HttpRequest& request, const std::string& answer) {
  return Corrupt("the answer is not a JSON object: {}",
                 EscapeControl(std::string_view(answer).substr(0, kMostShown)))
      .in(request.url);
}

Result<Json> AnswerOf(const HttpRequest& request, std::string_view path) {
  NXDKIT_ASSIGN(const std::string answer, GoodAnswerOf(request, path));
  if (answer.empty()) return Json::object();
  Result<Json> json = ParseJson(answer);
  if (!json.ok() || !json->is_object()) return NotAnObject(request, answer);
  return json;
}

// A POST without a body.
Status Tell(const Server& server, std::string_view path) {
  NXDKIT_TRY(AnswerOf(RequestTo(server, path, "", true), path));
  return OkStatus();
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Error NotADigest(std::string_view key, std::string_view found) {
  return Corrupt("found {}, expected 64 hexadecimal digits",
                 EscapeControl(found.substr(0, kMostShown)))
      .member(EscapeControl(ShortName(key)));
}

// Parses {"checksums": {"key": "64 digits", ..}, ..} as it arrives, or {"results": [{"key": ..},
// ..]}: other contents of a reply take no memory. Stops when the time for the whole request is
// over.
class ChecksumReader : public JsonHandler {
 public:
  using Clock = std::chrono::steady_clock;

  ChecksumReader(const Server& server, Clock::time_point until) : server_(server), until_(until) {}

  Status Key(std::string_view key) override {
    key_ = key;
    return Look();
  }
  Status String(std::string_view value) override {
    if (depth_ != kInChecksums) return Value();
    if (!IsDigest(value)) return NotADigest(key_, value);
    if (!found_.emplace(key_, value).second)
      return Corrupt("two digests have the same name").member(EscapeControl(ShortName(key_)));
    if (found_.size() > kMostChecksums) return OverLimit("over {} digests", kMostChecksums);
    return OkStatus();
  }
  Status Unsigned(uint64_t) override { return Value(); }
  Status Scalar(JsonKind) override { return Value(); }
  Status Begin(JsonKind kind, uint64_t) override {
    NXDKIT_TRY(Value());
    if (depth_ == 0) is_object_ = kind == JsonKind::kObject;
    in_results_ =
        in_results_ || (depth_ == 1 && is_object_ && kind == JsonKind::kArray && key_ == "results");
    const bool whole = depth_ == 1 && is_object_ && key_ == "checksums";
    if (kind == JsonKind::kObject && (whole || (in_results_ && depth_ == 2))) {
      has_checksums_ = true;
      around_ = depth_;
      depth_ = kInChecksums;
      return OkStatus();
    }
    ++depth_;
    return OkStatus();
  }
  Status End(JsonKind) override {
    depth_ = depth_ == kInChecksums ? around_ : depth_ - 1;
    in_results_ = in_results_ && depth_ > 1;
    return OkStatus();
  }

  bool is_object() const { return is_object_; }
  bool has_checksums() const { return has_checksums_; }
  std::map<std::string, std::string>& found() { return found_; }

 private:
  static constexpr int kInChecksums = -1;

  // A value that is not a digest.
  Status Value() {
    if (depth_ == kInChecksums) return NotADigest(key_, "a value that is not a string");
    return Look();
  }
  Status Look() {
    if (++events_ % kEventsBetweenLooks != 0) return OkStatus();
    if (server_.poll) NXDKIT_TRY(server_.poll());
    if (Clock::now() < until_) return OkStatus();
    return Error(Errc::kIo, fmt::format("the answer is not read after {} s", server_.seconds));
  }

  const Server& server_;
  Clock::time_point until_;
  std::string key_;
  std::map<std::string, std::string> found_;
  int depth_ = 0;   // open brackets, or kInChecksums
  int around_ = 1;  // those around the checksums
  bool in_results_ = false;
  bool is_object_ = false;
  bool has_checksums_ = false;
  size_t events_ = 0;
};

using Checksums = std::map<std::string, std::string>;

Result<Checksums> ChecksumsOf(const Server& server, std::string_view path, const char* body) {
  const HttpRequest request = RequestTo(server, path, body, true, kMostChecksumBytes);
  const auto until = ChecksumReader::Clock::now() +
                     std::chrono::milliseconds(static_cast<int64_t>(server.seconds * 1000));
  NXDKIT_ASSIGN(const std::string answer, GoodAnswerOf(request, path));
  ChecksumReader reader(server, until);
  const Status read = ReadJsonStream(answer, reader);
  if (!read.ok() && (reader.is_object() || read.error().code() != Errc::kCorrupt))
    return Error(read.error()).in(request.url);
  if (!reader.is_object()) return NotAnObject(request, answer);
  if (!reader.has_checksums()) return Corrupt("the answer has no checksums").in(request.url);
  return std::move(reader.found());
}

}  // namespace

Result<Json> Ask(const Server& server, std::string_view path, const std::string& body,
                 uint64_t most_bytes) {
  return AnswerOf(RequestTo(server, path, body, !body.empty(), most_bytes), path);
}

Result<std::map<std::string, std::string>> ReadDigests(const Json& digests) {
  if (!digests.is_object()) return Corrupt("digests are {}", JsonTypeText(digests));
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : digests.items()) {
    if (!value.is_string()) return NotADigest(key, JsonTypeText(value));
    if (!IsDigest(value.get_ref<const std::string&>()))
      return NotADigest(key, value.get_ref<const std::string&>());
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
  const Stopwatch watch;
  for (int tried = 0; tried < kMostResets && watch.Seconds() < server.seconds; ++tried) {
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
  return version->get<std::string>().substr(0, kMostVersion);
}

Result<Checksums> AskChecksums(const Server& server) {
  return ChecksumsOf(server, "/weight_checker", R"({"action":"checksum"})");
}

Result<Checksums> AskChecksumsOfWorkers(const Server& server) {
  return ChecksumsOf(server, "/collective_rpc", R"({"method":"compute_weight_checksums"})");
}

}  // namespace nxdkit::vllm
