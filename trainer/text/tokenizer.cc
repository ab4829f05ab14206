#include "trainer/text/tokenizer.h"

#include <fmt/core.h>

#include <unordered_map>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "trainer/text/bpe.h"
#include "trainer/text/byte_level.h"
#include "trainer/text/nfc.h"
#include "trainer/text/pre_tokenizer.h"
#include "trainer/text/tokenizer_parts.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{128} << 20;  // the largest known is 33 MB
constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct AddedVocabulary {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string_view, const AddedToken*> by_content;
  std::unordered_map<int32_t, const AddedToken*> by_id;
  std::unique_ptr<AddedTokenFinder> in_raw;         // in the text as it came
  std::unique_ptr<AddedTokenFinder> in_normalized;  // in the normalized text
};

// Special tokens go before others, as there: the first of two equal patterns counts.
Result<std::unique_ptr<AddedTokenFinder>> MakeFinder(const std::vector<AddedToken>& all,
                                                     bool normalized, bool nfc) {
  std::vector<const AddedToken*> tokens;
  std::vector<std::string> patterns;
  for (const bool special : {true, false}) {
    for (const AddedToken& token : all) {
      if (token.normalized != normalized || token.special != special) continue;
      tokens.push_back(&token);
      patterns.push_back(token.content);
      if (normalized && nfc) {
        NXDKIT_ASSIGN(patterns.back(), ToNfc(token.content));
      }
    }
  }
  return std::make_unique<AddedTokenFinder>(tokens, patterns);
}

// An id must mean one thing.
Status CheckAgainstModel(const AddedToken& token, const Bpe& model) {
  const int32_t model_id = model.IdOf(token.content);
  const std::string* other = model.TokenOf(token.id);
  if ((model_id < 0 && other == nullptr) || model_id == token.id) return OkStatus();
  const std::string shown = EscapeControl(token.content);
  if (model_id >= 0)
    return Error(Errc::kCorrupt,
                 fmt::format("'{}' has id {}, and {} in the vocabulary of the model", shown,
                             token.id, model_id))
        .member("added_tokens");
  return Error(Errc::kCorrupt, fmt::format("'{}' has id {}, which is '{}' in the model", shown,
                                           token.id, EscapeControl(*other)))
      .member("added_tokens");
}

Status Index(const Bpe& model, bool nfc, AddedVocabulary* added) {
  for (const AddedToken& token : added->tokens) {
    NXDKIT_TRY(CheckAgainstModel(token, model));
    if (!added->by_content.emplace(token.content, &token).second ||
        !added->by_id.emplace(token.id, &token).second)
      return Error(Errc::kCorrupt, fmt::format("'{}' with id {}: its content or id occurs twice",
                                               EscapeControl(token.content), token.id))
          .member("added_tokens");
  }
  NXDKIT_ASSIGN(added->in_raw, MakeFinder(added->tokens, false, nfc));
  NXDKIT_ASSIGN(added->in_normalized, MakeFinder(added->tokens, true, nfc));
  return OkStatus();
}

}  // namespace

struct Tokenizer::Parts {
  AddedVocabulary added;
  bool nfc;
  PreTokenizer pre_tokenizer;
  Bpe model;
  Surroundings around;

  Status EncodeWords(std::string_view text, std::vector<int32_t>* ids) const {
    Words words;
    NXDKIT_TRY(pre_tokenizer.Split(text, &words));
    for (const std::string_view word : words.list) {
      NXDKIT_TRY(model.CheckBytes(word));
      model.Encode(word, ids);
    }
    return OkStatus();
  }

  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const {
    std::string normalized;
    if (nfc) {
      NXDKIT_ASSIGN(normalized, ToNfc(text));
      text = normalized;
    }
    std::vector<TextPart> parts;
    added.in_normalized->Split(text, &parts);
    for (const TextPart& part : parts) {
      if (part.id >= 0)
        ids->push_back(part.id);
      else
        NXDKIT_TRY(EncodeWords(part.text, ids));
    }
    return OkStatus();
  }

  const std::string* TokenOf(int32_t id) const {
    const auto found = added.by_id.find(id);
    return found != added.by_id.end() ? &found->second->content : model.TokenOf(id);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::Open(const std::string& path) {
  NXDKIT_ASSIGN(const std::string json, ReadSmallFile(path, kMaxTokenizerBytes));
  Result<Tokenizer> tokenizer = Parse(json);
  if (!tokenizer.ok()) return std::move(tokenizer).error().in(path);
  return tokenizer;
}

Result<Tokenizer> Tokenizer::Parse(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  if (!json.is_object())
    return Error(Errc::kCorrupt, fmt::format("found {}, expected an object", JsonTypeText(json)));
  const Json* model = JsonFind(json, "model");
  const Json* pre_tokenizer = JsonFind(json, "pre_tokenizer");
  if (model == nullptr) return Error(Errc::kCorrupt, "the key is missing").member("model");
  if (pre_tokenizer == nullptr)
    return Error(Errc::kUnsupported, "found none, expected ByteLevel").member("pre_tokenizer");

  AddedVocabulary added;
  NXDKIT_ASSIGN(added.tokens, ReadAddedTokens(JsonFind(json, "added_tokens")));
  NXDKIT_ASSIGN(const bool nfc, ReadNormalizer(JsonFind(json, "normalizer")));
  NXDKIT_ASSIGN(PreTokenizer pre, PreTokenizer::FromJson(*pre_tokenizer));
  NXDKIT_ASSIGN(Surroundings around, ReadPostProcessor(JsonFind(json, "post_processor")));
  NXDKIT_TRY(CheckDecoder(JsonFind(json, "decoder")));
  NXDKIT_ASSIGN(Bpe bpe, Bpe::FromJson(*model));
  NXDKIT_TRY(Index(bpe, nfc, &added));
  return Tokenizer(std::make_unique<const Parts>(
      Parts{std::move(added), nfc, std::move(pre), std::move(bpe), std::move(around)}));
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               bool add_special_tokens) const {
  if (text.size() > kMaxTextBytes)
    return OverLimit("text of {} bytes is over the limit of {}", text.size(), kMaxTextBytes);
  if (const auto bad = ValidateUtf8(text))
    return Error(Errc::kCorrupt, "the text to encode is not UTF-8").at(*bad);
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = parts_->around.before;
  std::vector<TextPart> parts;
  parts_->added.in_raw->Split(text, &parts);
  for (const TextPart& part : parts) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      NXDKIT_TRY(parts_->EncodeText(part.text, &ids));
  }
  if (add_special_tokens)
    ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    const std::string* token = parts_->TokenOf(id);
    if (token != nullptr) bytes += BytesOfToken(*token).value_or(*token);
  }
  return Utf8Lossy(bytes);
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view token) const {
  const auto added = parts_->added.by_content.find(token);
  if (added != parts_->added.by_content.end()) return added->second->id;
  const int32_t id = parts_->model.IdOf(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<std::string> Tokenizer::Token(int32_t id) const {
  const std::string* token = parts_->TokenOf(id);
  return token == nullptr ? std::nullopt : std::optional(*token);
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const auto added = parts_->added.by_id.find(id);
  return added != parts_->added.by_id.end() && added->second->special;
}

int32_t Tokenizer::id_limit() const {
  int32_t limit = parts_->model.id_limit();
  for (const AddedToken& token : parts_->added.tokens) limit = std::max(limit, token.id + 1);
  return limit;
}

}  // namespace nxdkit::trainer
