// PRIVATE to tests. The answers of a vLLM server, with faults: it claims to hold the weights of a
// folder, and always generates the same tokens. It only produces faults; the tests of the real
// server are in tests/vllm.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "formats/ops/digest/engine_check.h"
#include "lib/json/json.h"
#include "tests/lib/http_peer.h"

namespace nxdkit::trainer {

// The digests for a Hugging Face folder.
inline ops::KeyedDigests PredictedOf(const std::string& folder, int tp = 1) {
  ops::EngineRequest request;
  request.path = folder;
  request.geometry.tp = tp;
  request.dtype = Dtype::kBF16;
  const auto digests = ops::DigestForEngine(request);
  EXPECT_TRUE(digests.ok()) << digests.error().ToString();
  return digests.ok() ? ops::KeyedDigestsOf(digests->params) : ops::KeyedDigests();
}

// The same for a vLLM Neuron engine.
inline ops::KeyedDigests PredictedOnNeuron(const std::string& folder, int tp = 1) {
  ops::NeuronRequest request;
  request.path = folder;
  request.geometry.tp = tp;
  request.dtype = Dtype::kBF16;
  const auto digests = ops::DigestForNeuron(request);
  EXPECT_TRUE(digests.ok()) << digests.error().ToString();
  return digests.ok() ? ops::KeyedDigestsOf(digests->params, request.geometry)
                      : ops::KeyedDigests();
}

class VllmPeer {
 public:
  using Answer = testing_util::PeerAnswer;
  // Called before anything is answered.
  using Fault = std::function<std::optional<Answer>(const std::string& path, const Json& body)>;

  // A server started by another process has its fault from the first request on. `folder` "": it
  // reports nothing about its weights.
  explicit VllmPeer(const std::string& folder, int port = 0, Fault fault = nullptr)
      : digests_(folder.empty() ? ops::KeyedDigests() : PredictedOf(folder)),
        fault_(std::move(fault)),
        peer_([this](const std::string& path, const std::string& body) { return Say(path, body); },
              port) {}

  std::string url() const { return peer_.url(); }
  // The folder that a reload loads instead of the requested one; "": none, the path stays.
  void LoadsInstead(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    instead_ = folder;
  }
  void Fails(Fault fault) {
    const std::scoped_lock lock(mutex_);
    fault_ = std::move(fault);
  }
  // Paths in the order of the requests, without those of Probe.
  std::vector<std::string> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::vector<Json> bodies(const std::string& path) const {
    const std::scoped_lock lock(mutex_);
    const auto found = bodies_.find(path);
    return found == bodies_.end() ? std::vector<Json>() : found->second;
  }
  void Forget() {
    const std::scoped_lock lock(mutex_);
    asked_.clear();
    bodies_.clear();
  }
  bool paused() const {
    const std::scoped_lock lock(mutex_);
    return paused_;
  }

  static constexpr int kToken = 5;
  static constexpr double kLogProb = -1.5;

  // As long as requested, or one token that ends it.
  static Json Choices(const Json& sampling, const Json& prompt, bool tokens,
                      const std::string& version) {
    Json choices = Json::array();
    const Json& stops = sampling["stop_token_ids"];
    const bool stop = !prompt.empty() && !stops.empty() && prompt[0] == 2;
    const size_t length = stop ? 1 : sampling["max_tokens"].get<size_t>();
    const int id = stop ? stops[0].get<int>() : kToken;
    for (int i = 0; i < sampling["n"].get<int>(); ++i) {
      Json choice = {{"index", i},
                     {"finish_reason", stop ? "stop" : "length"},
                     {"token_ids", std::vector<int>(length, id)}};
      const std::vector<Json> content(length, Json{{"token_id", id}, {"logprob", kLogProb}});
      if (!sampling["logprobs"].is_null() && tokens) choice["logprobs"] = {{"content", content}};
      if (!sampling["logprobs"].is_null() && !tokens)
        choice["logprobs"] = {{"token_logprobs", std::vector<double>(length, kLogProb)}};
      if (tokens)
        choice["weight_versions"] = {{{"version", version}, {"start", 0}, {"end", length}}};
      choices.push_back(choice);
    }
    return choices;
  }

 private:
  Answer Say(const std::string& target, const std::string& text) {
    const std::string path = target.substr(0, target.find('?'));
    const Json body = text.empty() ? Json::object() : Json::parse(text);
    const std::scoped_lock lock(mutex_);
    asked_.push_back(path);
    bodies_[path].push_back(body);
    if (fault_)
      if (const std::optional<Answer> answer = fault_(path, body)) return *answer;
    if (path == "/version") return {.body = R"({"version":"0.32.0"})"};
    if (path == "/health") return {.body = ""};
    if (path == "/is_paused") return {.body = R"({"is_paused":false})"};
    if (path == "/v1/models") return {.body = R"({"data":[{"id":"m","max_model_len":64}]})"};
    if (path == "/pause" || path == "/resume") {
      paused_ = path == "/pause";
      return {};
    }
    if (path == "/collective_rpc") return Reload(body["kwargs"]["weights_path"]);
    if (path == "/weight_checker") return {.body = Checksums().dump()};
    if (path == "/reset_prefix_cache") return {.body = R"({"success":true})"};
    if (path == "/update_weight_version") {
      version_ = body["new_version"];
      return {};
    }
    if (path == "/inference/v1/generate" && body.value("token_ids", Json()).empty())
      return {.status = 400, .body = R"({"error":{"message":"empty"}})"};
    if (path == "/inference/v1/generate")
      return {.body = Json{{"choices",
                            Choices(body["sampling_params"], body["token_ids"], true, version_)}}
                          .dump()};
    if (path == "/v1/completions")
      return {.body = Json{{"choices", Choices(body, body["prompt"], false, version_)}}.dump()};
    return {.status = 404, .body = R"({"detail":"Not Found"})"};
  }

  Answer Reload(const std::string& folder) {
    const std::string loaded = instead_.value_or(folder);
    if (!loaded.empty()) digests_ = PredictedOf(loaded);
    return {.body = R"({"results":[null]})"};
  }

  Json Checksums() const {
    Json all = Json::object();
    for (const auto& [key, digest] : digests_) all[key] = digest;
    return {{"checksums", all}};
  }

  mutable std::mutex mutex_;
  ops::KeyedDigests digests_;
  std::optional<std::string> instead_;
  Fault fault_;
  std::vector<std::string> asked_;
  std::map<std::string, std::vector<Json>> bodies_;
  std::string version_ = "default";
  bool paused_ = false;
  testing_util::HttpPeer peer_;  // last: its thread uses the others
};

}  // namespace nxdkit::trainer
