#include "trainer/rollout/messages.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

// Both directions of a field. What a struct is made of is listed once, in Fields.
class Put {
 public:
  void operator()(const auto&... fields) { (One(fields), ...); }
  std::string Take() { return writer_.Take(); }

 private:
  void One(bool flag) { writer_.Put<uint8_t>(flag); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(T number) { writer_.Put(number); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(const std::vector<T>& numbers) { writer_.PutArray<T>(numbers); }
  void One(const std::string& text) { writer_.PutText(text); }
  void One(Dtype dtype) { writer_.PutText(TorchName(dtype)); }
  void One(FinishReason reason) { writer_.Put(static_cast<uint8_t>(reason)); }
  void One(const rollout::WeightsVersion& version);
  template <typename T>
  void One(const std::optional<T>& value) {
    One(value.has_value());
    if (value) One(*value);
  }

  WireWriter writer_;
};

class Get {
 public:
  explicit Get(std::string_view payload) : reader_(payload) {}
  void operator()(auto&... fields) { (One(fields), ...); }
  WireReader& reader() { return reader_; }
  // kCorrupt where the bytes are too few or too many, or a word or number means nothing.
  template <typename T>
  Result<T> Finished(T value) const {
    NXDKIT_TRY(reader_.Finish());
    if (unknown_) return *unknown_;
    return value;
  }

 private:
  void One(bool& flag) { flag = reader_.GetFlag(); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(T& number) { number = reader_.Get<T>(); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(std::vector<T>& numbers) { numbers = reader_.GetArray<T>(); }
  void One(std::string& text) { text = reader_.GetText(); }
  void One(Dtype& dtype) {
    const std::string name = reader_.GetText();
    const std::optional<Dtype> known = DtypeFromTorchName(name);
    if (known)
      dtype = *known;
    else
      unknown_ = Error(Errc::kCorrupt, fmt::format("an element type \"{}\"", name));
  }
  void One(FinishReason& reason) {
    const uint8_t number = reader_.Get<uint8_t>();
    reason = static_cast<FinishReason>(number);
    if (number > static_cast<uint8_t>(FinishReason::kLength))
      unknown_ = Error(Errc::kCorrupt, fmt::format("an end of kind {}", number));
  }
  void One(rollout::WeightsVersion& version);
  template <typename T>
  void One(std::optional<T>& value) {
    if (reader_.GetFlag()) One(value.emplace());
  }

  WireReader reader_;
  std::optional<Error> unknown_;
};

// `of`: const where it is put.
void Fields(auto& wire, auto& of) requires requires { of.serial; }
{ wire(of.serial, of.label, of.source, of.digest); }

void Put::One(const rollout::WeightsVersion& version) { Fields(*this, version); }
void Get::One(rollout::WeightsVersion& version) { Fields(*this, version); }

// The least that one request takes; counts are bounded with it.
constexpr uint64_t kLeastRequestBytes = 70;

void Fields(auto& wire, auto& request) requires requires { request.prompt; }
{
  auto& sampling = request.sampling;
  wire(request.prompt, sampling.temperature, sampling.top_k, sampling.top_p, sampling.log_probs,
       sampling.ignore_eos, sampling.max_tokens, sampling.stop_tokens, request.seed, request.step,
       request.prompt_index, request.sample_index);
}

void Fields(auto& wire, auto& options) requires requires { options.neuron_override; }
{
  auto& over = options.neuron_override;
  wire(options.bundle, over.tp_degree, over.batch_size, over.seq_len, over.torch_dtype,
       options.expect.serial, options.expect.label, options.expect.digest, options.threads,
       options.pass_tokens, options.digest);
}

void Fields(auto& wire, auto& facts) requires requires { facts.model_type; }
{
  wire(facts.model_type, facts.tp, facts.batch_size, facts.seq_len, facts.vocab, facts.weight_bytes,
       facts.cache_bytes, facts.dtype, facts.version, facts.digest);
}

void Fields(auto& wire, auto& stats) requires requires { stats.passes; }
{ wire(stats.passes, stats.prompt_tokens, stats.copied_tokens, stats.response_tokens); }

template <typename T>
std::string Encoded(const T& value) {
  Put put;
  Fields(put, value);
  return put.Take();
}

template <typename T>
Result<T> Decoded(std::string_view payload) {
  Get get(payload);
  T value;
  Fields(get, value);
  return get.Finished(std::move(value));
}

}  // namespace

std::string EncodeHello() {
  Put put;
  put(kProtocolVersion);
  return put.Take();
}

Status DecodeHello(std::string_view payload) {
  WireReader reader(payload);
  const uint32_t version = reader.Get<uint32_t>();
  NXDKIT_TRY(reader.Finish());
  if (version == kProtocolVersion) return OkStatus();
  return Error(Errc::kUnsupported,
               fmt::format("the rollout worker speaks version {} of the protocol, this program {}",
                           version, kProtocolVersion));
}

std::string EncodeOptions(const EngineOptions& options) { return Encoded(options); }
Result<EngineOptions> DecodeOptions(std::string_view payload) {
  return Decoded<EngineOptions>(payload);
}

std::string EncodeFacts(const EngineFacts& facts) { return Encoded(facts); }
Result<EngineFacts> DecodeFacts(std::string_view payload) { return Decoded<EngineFacts>(payload); }

std::string EncodeStats(const GenerateStats& stats) { return Encoded(stats); }
Result<GenerateStats> DecodeStats(std::string_view payload) {
  return Decoded<GenerateStats>(payload);
}

std::string EncodeRequests(const std::vector<NumberedRequest>& requests) {
  Put put;
  put(uint64_t{requests.size()});
  for (const NumberedRequest& one : requests) {
    put(one.number);
    Fields(put, *one.request);
  }
  return put.Take();
}

Result<DecodedRequests> DecodeRequests(std::string_view payload) {
  Get get(payload);
  DecodedRequests out;
  const uint64_t count = get.reader().GetCount(kLeastRequestBytes);
  for (uint64_t i = 0; i < count; ++i) {
    get(out.numbers.emplace_back());
    Fields(get, out.requests.emplace_back());
  }
  return get.Finished(std::move(out));
}

std::string EncodeResponse(uint64_t number, const RolloutResponse& response) {
  Put put;
  put(number, response.ids, response.log_probs, response.reason);
  return put.Take();
}

Result<NumberedResponse> DecodeResponse(std::string_view payload) {
  Get get(payload);
  NumberedResponse out;
  get(out.number, out.response.ids, out.response.log_probs, out.response.reason);
  return get.Finished(std::move(out));
}

std::string EncodeError(const Error& error) {
  Put put;
  put(static_cast<uint32_t>(error.code()), error.message(), error.file(), error.member(),
      error.tensor(), error.hint());
  return put.Take();
}

Error ErrorFrom(std::string_view payload) {
  WireReader reader(payload);
  const uint32_t code = reader.Get<uint32_t>();
  std::string texts[5];
  for (std::string& text : texts) text = reader.GetText();
  if (!reader.Finish().ok() || code > static_cast<uint32_t>(Errc::kInternal))
    return Error(Errc::kCorrupt, "a rollout worker failed and did not say how");
  Error error(static_cast<Errc>(code), texts[0]);
  if (!texts[1].empty()) error = std::move(error).in(texts[1]);
  if (!texts[2].empty()) error = std::move(error).member(texts[2]);
  if (!texts[3].empty()) error = std::move(error).on(texts[3]);
  if (!texts[4].empty()) error = std::move(error).hint(texts[4]);
  return error;
}

}  // namespace nxdkit::trainer
