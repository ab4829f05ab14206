#include "trainer/rollout/messages.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

// An optional: a flag, and the value when it is set.
template <typename T>
void PutOptional(WireWriter& writer, const std::optional<T>& value) {
  writer.Put<uint8_t>(value.has_value());
  if (!value) return;
  if constexpr (std::is_same_v<T, std::string>)
    writer.PutText(*value);
  else
    writer.Put(*value);
}
template <typename T>
std::optional<T> GetOptional(WireReader& reader) {
  if (!reader.GetFlag()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>)
    return reader.GetText();
  else
    return reader.Get<T>();
}

template <typename T>
Result<T> Finished(const WireReader& reader, T value) {
  NXDKIT_TRY(reader.Finish());
  return value;
}

// The least that one request takes; counts are bounded with it.
constexpr uint64_t kLeastRequestBytes = 70;

void PutRequest(WireWriter& writer, const RolloutRequest& request) {
  writer.PutArray<int32_t>(request.prompt);
  const SamplingParams& sampling = request.sampling;
  writer.Put(sampling.temperature);
  writer.Put(sampling.top_k);
  writer.Put(sampling.top_p);
  writer.Put<uint8_t>(sampling.log_probs);
  writer.Put<uint8_t>(sampling.ignore_eos);
  writer.Put(sampling.max_tokens);
  writer.PutArray<int32_t>(sampling.stop_tokens);
  writer.Put(request.seed);
  writer.Put(request.step);
  writer.Put(request.prompt_index);
  writer.Put(request.sample_index);
}

RolloutRequest GetRequest(WireReader& reader) {
  RolloutRequest request;
  request.prompt = reader.GetArray<int32_t>();
  SamplingParams& sampling = request.sampling;
  sampling.temperature = reader.Get<float>();
  sampling.top_k = reader.Get<int64_t>();
  sampling.top_p = reader.Get<float>();
  sampling.log_probs = reader.GetFlag();
  sampling.ignore_eos = reader.GetFlag();
  sampling.max_tokens = reader.Get<int64_t>();
  sampling.stop_tokens = reader.GetArray<int32_t>();
  request.seed = reader.Get<uint64_t>();
  request.step = reader.Get<uint32_t>();
  request.prompt_index = reader.Get<uint32_t>();
  request.sample_index = reader.Get<uint32_t>();
  return request;
}

}  // namespace

std::string EncodeHello() {
  WireWriter writer;
  writer.Put(kProtocolVersion);
  return writer.Take();
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

std::string EncodeOptions(const EngineOptions& options) {
  WireWriter writer;
  writer.PutText(options.bundle);
  PutOptional(writer, options.neuron_override.tp_degree);
  PutOptional(writer, options.neuron_override.batch_size);
  PutOptional(writer, options.neuron_override.seq_len);
  PutOptional(writer, options.neuron_override.torch_dtype);
  PutOptional(writer, options.expect.serial);
  PutOptional(writer, options.expect.label);
  writer.PutText(options.expect.digest);
  writer.Put<int32_t>(options.threads);
  writer.Put(options.pass_tokens);
  writer.Put<uint8_t>(options.digest);
  return writer.Take();
}

Result<EngineOptions> DecodeOptions(std::string_view payload) {
  WireReader reader(payload);
  EngineOptions options;
  options.bundle = reader.GetText();
  options.neuron_override.tp_degree = GetOptional<int64_t>(reader);
  options.neuron_override.batch_size = GetOptional<int64_t>(reader);
  options.neuron_override.seq_len = GetOptional<int64_t>(reader);
  options.neuron_override.torch_dtype = GetOptional<std::string>(reader);
  options.expect.serial = GetOptional<int64_t>(reader);
  options.expect.label = GetOptional<std::string>(reader);
  options.expect.digest = reader.GetText();
  options.threads = reader.Get<int32_t>();
  options.pass_tokens = reader.Get<int64_t>();
  options.digest = reader.GetFlag();
  return Finished(reader, std::move(options));
}

std::string EncodeFacts(const EngineFacts& facts) {
  WireWriter writer;
  writer.PutText(facts.model_type);
  for (const int64_t number : {facts.tp, facts.batch_size, facts.seq_len, facts.vocab,
                               facts.weight_bytes, facts.cache_bytes})
    writer.Put(number);
  writer.PutText(TorchName(facts.dtype));
  writer.Put<uint8_t>(facts.version.has_value());
  if (facts.version) {
    writer.Put(facts.version->serial);
    writer.PutText(facts.version->label);
    writer.PutText(facts.version->source);
    writer.PutText(facts.version->digest);
  }
  writer.PutText(facts.digest);
  return writer.Take();
}

Result<EngineFacts> DecodeFacts(std::string_view payload) {
  WireReader reader(payload);
  EngineFacts facts;
  facts.model_type = reader.GetText();
  for (int64_t* number : {&facts.tp, &facts.batch_size, &facts.seq_len, &facts.vocab,
                          &facts.weight_bytes, &facts.cache_bytes})
    *number = reader.Get<int64_t>();
  const std::string dtype = reader.GetText();
  if (reader.GetFlag()) {
    facts.version.emplace();
    facts.version->serial = reader.Get<int64_t>();
    facts.version->label = reader.GetText();
    facts.version->source = reader.GetText();
    facts.version->digest = reader.GetText();
  }
  facts.digest = reader.GetText();
  NXDKIT_TRY(reader.Finish());
  const std::optional<Dtype> known = DtypeFromTorchName(dtype);
  if (!known) return Error(Errc::kCorrupt, fmt::format("an element type \"{}\"", dtype));
  facts.dtype = *known;
  return facts;
}

std::string EncodeRequests(const std::vector<NumberedRequest>& requests) {
  WireWriter writer;
  writer.Put<uint64_t>(requests.size());
  for (const NumberedRequest& one : requests) {
    writer.Put(one.number);
    PutRequest(writer, *one.request);
  }
  return writer.Take();
}

Result<DecodedRequests> DecodeRequests(std::string_view payload) {
  WireReader reader(payload);
  DecodedRequests out;
  const uint64_t count = reader.GetCount(kLeastRequestBytes);
  for (uint64_t i = 0; i < count; ++i) {
    out.numbers.push_back(reader.Get<uint64_t>());
    out.requests.push_back(GetRequest(reader));
  }
  return Finished(reader, std::move(out));
}

std::string EncodeResponse(uint64_t number, const RolloutResponse& response) {
  WireWriter writer;
  writer.Put(number);
  writer.PutArray<int32_t>(response.ids);
  writer.PutArray<float>(response.log_probs);
  writer.Put(static_cast<uint8_t>(response.reason));
  return writer.Take();
}

Result<NumberedResponse> DecodeResponse(std::string_view payload) {
  WireReader reader(payload);
  NumberedResponse out;
  out.number = reader.Get<uint64_t>();
  out.response.ids = reader.GetArray<int32_t>();
  out.response.log_probs = reader.GetArray<float>();
  const uint8_t reason = reader.Get<uint8_t>();
  NXDKIT_TRY(reader.Finish());
  if (reason > static_cast<uint8_t>(FinishReason::kLength))
    return Error(Errc::kCorrupt, fmt::format("an end of kind {}", reason));
  out.response.reason = static_cast<FinishReason>(reason);
  return out;
}

std::string EncodeStats(const GenerateStats& stats) {
  WireWriter writer;
  for (const int64_t number :
       {stats.passes, stats.prompt_tokens, stats.copied_tokens, stats.response_tokens})
    writer.Put(number);
  return writer.Take();
}

Result<GenerateStats> DecodeStats(std::string_view payload) {
  WireReader reader(payload);
  GenerateStats stats;
  for (int64_t* number :
       {&stats.passes, &stats.prompt_tokens, &stats.copied_tokens, &stats.response_tokens})
    *number = reader.Get<int64_t>();
  return Finished(reader, stats);
}

std::string EncodeError(const Error& error) {
  WireWriter writer;
  writer.Put(static_cast<uint32_t>(error.code()));
  for (const std::string* text :
       {&error.message(), &error.file(), &error.member(), &error.tensor(), &error.hint()})
    writer.PutText(*text);
  return writer.Take();
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
