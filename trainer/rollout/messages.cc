#include "trainer/rollout/messages.h"

#include <cstring>
#include <type_traits>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

// Both directions of a field: numbers as they are, flags as a byte, texts and arrays after their
// count, optional values after a flag. The members of a struct are listed once, in Fields.
class Put {
 public:
  void operator()(const auto&... fields) { (One(fields), ...); }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(T number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void One(bool flag) { One(static_cast<uint8_t>(flag)); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(const std::vector<T>& numbers) {
    One(uint64_t{numbers.size()});
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  }
  void One(std::string_view text) {
    One(uint64_t{text.size()});
    bytes_.append(text);
  }
  void One(Dtype dtype) { One(TorchName(dtype)); }
  void One(FinishReason reason) { One(static_cast<uint8_t>(reason)); }
  void One(EngineKind kind) { One(static_cast<uint8_t>(kind)); }
  void One(const rollout::WeightsVersion& version);
  void One(const std::vector<std::string>& texts) {
    One(uint64_t{texts.size()});
    for (const std::string& text : texts) One(text);
  }
  void One(const auto& pairs) requires requires { pairs.begin()->second; }
  {
    One(uint64_t{pairs.size()});
    for (const auto& [key, value] : pairs) (*this)(key, value);
  }
  template <typename T>
  void One(const std::optional<T>& value) {
    One(value.has_value());
    if (value) One(*value);
  }

  std::string bytes_;
};

// The first failure is kept; everything read after it is zero. Nothing may be used before Finish.
class Get {
 public:
  explicit Get(std::string_view payload) : bytes_(payload) {}
  void operator()(auto&... fields) { (One(fields), ...); }
  // A count of things of at least `least` bytes each; 0 when there are too few bytes for them.
  uint64_t Count(uint64_t least) {
    uint64_t count = 0;
    One(count);
    return Has(least, count) ? count : 0;
  }
  // kCorrupt when there are too few or too many bytes, or a word or number has no meaning.
  Status Finish() const {
    if (error_) return *error_;
    if (at_ == bytes_.size()) return unknown_ ? Status(*unknown_) : OkStatus();
    return Corrupt("{} bytes are left over", bytes_.size() - at_).at(at_);
  }

 private:
  bool Has(uint64_t size, uint64_t count) {
    if (error_) return false;
    const uint64_t left = bytes_.size() - at_;
    if (count <= left / size) return true;
    error_ = Corrupt("{} x {} bytes are announced, {} are left", count, size, left).at(at_);
    return false;
  }
  void Take(void* to, size_t size) {
    if (size > 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(T& number) {
    number = {};
    if (Has(sizeof number, 1)) Take(&number, sizeof number);
  }
  void One(bool& flag) {
    uint8_t byte = 0;
    One(byte);
    flag = byte != 0;
  }
  void Elements(auto& to) {
    constexpr size_t kSize = sizeof to[0];
    to.resize(static_cast<size_t>(Count(kSize)));
    Take(to.data(), to.size() * kSize);
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void One(std::vector<T>& numbers) { Elements(numbers); }
  void One(std::string& text) { Elements(text); }
  void One(Dtype& dtype) {
    std::string name;
    One(name);
    const std::optional<Dtype> known = DtypeFromTorchName(name);
    if (known)
      dtype = *known;
    else
      unknown_ = Corrupt("an element type \"{}\"", name);
  }
  template <typename Kind>
  void Word(Kind& kind, Kind last, const char* what) {
    uint8_t number = 0;
    One(number);
    kind = static_cast<Kind>(number);
    if (number > static_cast<uint8_t>(last)) unknown_ = Corrupt("{} of kind {}", what, number);
  }
  void One(FinishReason& reason) { Word(reason, FinishReason::kLength, "an end"); }
  void One(EngineKind& kind) { Word(kind, EngineKind::kExec, "an engine"); }
  void One(rollout::WeightsVersion& version);
  // Every text takes at least the bytes of its count.
  void One(std::vector<std::string>& texts) {
    const uint64_t count = Count(sizeof(uint64_t));
    for (uint64_t i = 0; i < count; ++i) One(texts.emplace_back());
  }
  void One(std::vector<std::pair<std::string, std::string>>& pairs) {
    const uint64_t count = Count(2 * sizeof(uint64_t));
    for (uint64_t i = 0; i < count; ++i) {
      auto& [key, value] = pairs.emplace_back();
      (*this)(key, value);
    }
  }
  void One(std::map<std::string, double>& numbers) {
    const uint64_t count = Count(sizeof(uint64_t) + sizeof(double));
    for (uint64_t i = 0; i < count; ++i) {
      std::string key;
      double value = 0;
      (*this)(key, value);
      numbers.emplace(std::move(key), value);
    }
  }
  template <typename T>
  void One(std::optional<T>& value) {
    bool there = false;
    One(there);
    if (there) One(value.emplace());
  }

  std::string_view bytes_;
  size_t at_ = 0;
  std::optional<Error> error_, unknown_;
};

// `of`: const when it is encoded.
void Fields(auto& wire, auto& of) requires requires { of.serial; }
{ wire(of.serial, of.label, of.source, of.digest); }

void Put::One(const rollout::WeightsVersion& version) { Fields(*this, version); }
void Get::One(rollout::WeightsVersion& version) { Fields(*this, version); }

// The smallest size of a request, which bounds counts.
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
       options.pass_tokens, options.digest, options.kind);
  auto& other = options.other;
  wire(other.url, other.command, other.variables, other.tp, other.vocab, other.seq_len, other.dtype,
       other.temperature, other.in_flight, other.tells_log_probs, other.starts_anew,
       other.start_seconds, other.answer_seconds, other.version, other.parameters);
}

void Fields(auto& wire, auto& facts) requires requires { facts.model_type; }
{
  wire(facts.model_type, facts.tp, facts.batch_size, facts.seq_len, facts.vocab, facts.weight_bytes,
       facts.cache_bytes, facts.dtype, facts.version, facts.digest, facts.engine, facts.seconds,
       facts.proved, facts.not_covered);
}

void Fields(auto& wire, auto& stats) requires requires { stats.passes; }
{ wire(stats.passes, stats.prompt_tokens, stats.copied_tokens, stats.response_tokens); }

}  // namespace

template <typename T>
std::string Encode(const T& value) {
  Put put;
  Fields(put, value);
  return put.Take();
}

template <typename T>
Result<T> Decode(std::string_view payload) {
  Get get(payload);
  T value;
  Fields(get, value);
  NXDKIT_TRY(get.Finish());
  return value;
}

template std::string Encode(const EngineOptions&);
template std::string Encode(const EngineFacts&);
template std::string Encode(const GenerateStats&);
template Result<EngineOptions> Decode(std::string_view);
template Result<EngineFacts> Decode(std::string_view);
template Result<GenerateStats> Decode(std::string_view);

std::string EncodeHello() {
  Put put;
  put(kProtocolVersion);
  return put.Take();
}

Status DecodeHello(std::string_view payload) {
  Get get(payload);
  uint32_t version = 0;
  get(version);
  NXDKIT_TRY(get.Finish());
  if (version == kProtocolVersion) return OkStatus();
  return Unsupported("the rollout worker speaks version {} of the protocol, this program {}",
                     version, kProtocolVersion);
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
  const uint64_t count = get.Count(kLeastRequestBytes);
  for (uint64_t i = 0; i < count; ++i) {
    get(out.numbers.emplace_back());
    Fields(get, out.requests.emplace_back());
  }
  NXDKIT_TRY(get.Finish());
  return out;
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
  NXDKIT_TRY(get.Finish());
  return out;
}

std::string EncodeError(const Error& error) {
  Put put;
  put(static_cast<uint32_t>(error.code()), error.message(), error.file(), error.member(),
      error.tensor(), error.hint());
  return put.Take();
}

Error ErrorFrom(std::string_view payload) {
  Get get(payload);
  uint32_t code = 0;
  std::string texts[5];
  get(code, texts[0], texts[1], texts[2], texts[3], texts[4]);
  if (!get.Finish().ok() || code > static_cast<uint32_t>(Errc::kInternal))
    return Corrupt("a rollout worker failed without an error message");
  return Error(static_cast<Errc>(code), texts[0])
      .in(texts[1])
      .member(texts[2])
      .on(texts[3])
      .hint(texts[4]);
}

}  // namespace nxdkit::trainer
