#include "trainer/text/token_decoder.h"

#include <optional>

#include "lib/base/errors.h"
#include "lib/base/utf8.h"
#include "trainer/text/byte_level.h"
#include "trainer/text/normalizer.h"
#include "trainer/text/step_list.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kDecoderKey = "decoder";
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";
constexpr uint64_t kMaxStrip = 1 << 20;

std::string JoinAll(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

std::string DecodeByteLevel(const std::vector<std::string_view>& tokens) {
  std::string bytes;
  for (const std::string_view token : tokens)
    bytes += BytesOfToken(token).value_or(std::string(token));
  return Utf8Lossy(bytes);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "<0x0A>" is a byte.
std::optional<char> ByteOf(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const int high = HexDigit(token[3]), low = HexDigit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// Consecutive bytes are decoded together if they form UTF-8, otherwise each is a U+FFFD.
std::vector<std::string> WithoutBytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (!ValidateUtf8(bytes))
      out.push_back(bytes);
    else
      for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back(kReplacementCharacter);
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const std::optional<char> byte = ByteOf(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

std::string Stripped(std::string_view token, std::string_view what, size_t begin, size_t end) {
  for (size_t i = 0; i < begin && token.starts_with(what); ++i) token.remove_prefix(what.size());
  for (size_t i = 0; i < end && token.ends_with(what); ++i) token.remove_suffix(what.size());
  return std::string(token);
}

Result<size_t> CountOf(const Json& json, const char* key) {
  const Json* value = JsonFind(json, key);
  if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= kMaxStrip)
    return value->get<size_t>();
  return Corrupt("Strip without a count '{}'", key).member(kDecoderKey);
}

}  // namespace

Result<TokenDecoder::Step> TokenDecoder::ReadStep(std::string_view type, const Json& json) {
  Step step{};
  if (type == "ByteLevel") step.kind = Kind::kByteLevel;
  if (type == "ByteFallback") step.kind = Kind::kByteFallback;
  if (type == "Fuse") step.kind = Kind::kFuse;
  if (type == "Replace") {
    step.kind = Kind::kReplace;
    NXDKIT_ASSIGN(Replacement replacement, ReadReplacement(json, kDecoderKey));
    step.pattern = std::move(replacement.pattern);
    step.content = std::move(replacement.content);
  }
  if (type == "Strip") {
    step.kind = Kind::kStrip;
    NXDKIT_ASSIGN(step.pattern, JsonString(json, "content"));
    NXDKIT_ASSIGN(step.begin, CountOf(json, "start"));
    NXDKIT_ASSIGN(step.end, CountOf(json, "stop"));
    if (step.pattern.empty()) return Corrupt("Strip of nothing").member(kDecoderKey);
  }
  if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    step.content = " ";
    NXDKIT_ASSIGN(step.pattern, JsonString(json, "replacement"));
    std::string scheme = "always";
    if (JsonFind(json, "prepend_scheme") != nullptr)
      NXDKIT_TRY(JsonString(json, "prepend_scheme").To(scheme));
    step.drops_first = scheme != "never";
  }
  return step;
}

Result<TokenDecoder> TokenDecoder::FromJson(const Json* json) {
  const StepList part = {
      kDecoderKey,
      "decoders",
      {"ByteLevel", "Fuse", "Replace", "ByteFallback", "Strip", "Metaspace"},
      "ByteLevel, Fuse, Replace, ByteFallback, Strip, Metaspace or a flat Sequence"};
  if (json == nullptr)
    return Unsupported("found none, expected ByteLevel or Metaspace").member(kDecoderKey);
  TokenDecoder made;
  size_t byte_levels = 0, others = 0;
  const auto read = [&](std::string_view type, const Json& step) -> Status {
    NXDKIT_ASSIGN(Step one, ReadStep(type, step));
    byte_levels += one.kind == Kind::kByteLevel;
    others += one.kind != Kind::kByteLevel && one.kind != Kind::kFuse;
    made.steps_.push_back(std::move(one));
    return OkStatus();
  };
  NXDKIT_TRY(ForEachStep(*json, part, read));
  if (byte_levels > 1)
    return Unsupported("ByteLevel {} times, expected once", byte_levels).member(kDecoderKey);
  if (byte_levels + others == 0)
    return Unsupported("ByteLevel 0 times, and nothing instead").member(kDecoderKey);
  if (byte_levels > 0 && others > 0)
    return Unsupported("ByteLevel together with other steps").member(kDecoderKey);
  // The joined token is outside the alphabet if any part of it is.
  if (byte_levels > 0 && made.steps_.front().kind == Kind::kFuse)
    return Unsupported("Fuse before ByteLevel").member(kDecoderKey);
  if (byte_levels > 0) made.steps_ = {{Kind::kByteLevel, "", "", 0, 0, false}};
  return made;
}

void TokenDecoder::Apply(const Step& step, std::vector<std::string>* tokens) {
  switch (step.kind) {
    case Kind::kByteLevel:
      break;  // alone, and final
    case Kind::kFuse:
      *tokens = {JoinAll(*tokens)};
      break;
    case Kind::kByteFallback:
      *tokens = WithoutBytes(*tokens);
      break;
    case Kind::kReplace:
      for (std::string& token : *tokens) token = ReplacedAll(token, step.pattern, step.content);
      break;
    case Kind::kStrip:
      for (std::string& token : *tokens)
        token = Stripped(token, step.pattern, step.begin, step.end);
      break;
    case Kind::kMetaspace:
      for (size_t i = 0; i < tokens->size(); ++i)
        (*tokens)[i] = ReplacedAll((*tokens)[i], step.pattern,
                                   i == 0 && step.drops_first ? std::string() : step.content);
      break;
  }
}

std::string TokenDecoder::Decode(const std::vector<std::string_view>& tokens) const {
  if (steps_[0].kind == Kind::kByteLevel) return DecodeByteLevel(tokens);
  std::vector<std::string> now(tokens.begin(), tokens.end());
  for (const Step& step : steps_) Apply(step, &now);
  return JoinAll(now);
}

}  // namespace nxdkit::trainer
