#include "trainer/text/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "trainer/base/characters.h"
#include "trainer/text/bpe.h"
#include "trainer/text/normalizer.h"
#include "trainer/text/pre_tokenizer.h"
#include "trainer/text/token_decoder.h"
#include "trainer/text/tokenizer_sections.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{128} << 20;  // the largest known is 33 MB
constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct AddedVocabulary {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string_view, const AddedToken*> by_content;
  std::unordered_map<int32_t, const AddedToken*> by_id;
  // The text that Decode gives for tokens that the normalizer changes, as in the library (0.23):
  // they are then not left out as special tokens either.
  std::unordered_map<int32_t, std::string> normalized;
  std::unique_ptr<AddedTokenFinder> in_raw;         // in the original text
  std::unique_ptr<AddedTokenFinder> in_normalized;  // in the normalized text
};

// Special tokens go before others, as in the library: the first of two equal patterns wins.
Result<std::unique_ptr<AddedTokenFinder>> MakeFinder(const std::vector<AddedToken>& all,
                                                     bool normalized,
                                                     const Normalizer& normalizer) {
  std::vector<const AddedToken*> tokens;
  std::vector<std::string> patterns;
  for (const bool special : {true, false}) {
    for (const AddedToken& token : all) {
      if (token.normalized != normalized || token.special != special) continue;
      tokens.push_back(&token);
      patterns.push_back(token.content);
      if (normalized) NXDKIT_TRY(normalizer.Apply(token.content).To(patterns.back()));
    }
  }
  return std::make_unique<AddedTokenFinder>(tokens, patterns);
}

// An id must have one meaning.
Status CheckAgainstModel(const AddedToken& token, const Bpe& model) {
  const int32_t model_id = model.IdOf(token.content);
  const std::string* other = model.TokenOf(token.id);
  if ((model_id < 0 && other == nullptr) || model_id == token.id) return OkStatus();
  const std::string shown = EscapeControl(token.content);
  if (model_id >= 0)
    return Corrupt("'{}' has id {}, and {} in the vocabulary of the model", shown, token.id,
                   model_id)
        .member("added_tokens");
  return Corrupt("'{}' has id {}, which is '{}' in the model", shown, token.id,
                 EscapeControl(*other))
      .member("added_tokens");
}

// The library numbers the tokens that the model does not have in the order of the file, and ignores
// the ids written there: this computes the ids it assigns.
class IdCounter {
 public:
  explicit IdCounter(const Bpe& model)
      : model_(model), next_(static_cast<int32_t>(model.vocab_size())) {}

  // The id of a token that the model does not have.
  int32_t next() const { return highest_ >= next_ ? highest_ + 1 : next_; }
  int32_t IdFor(const std::string& content) const {
    const int32_t known = model_.IdOf(content);
    return known < 0 ? next() : known;
  }
  void Take(int32_t id) { highest_ = std::max(highest_, id); }

 private:
  const Bpe& model_;
  int32_t next_;
  int32_t highest_ = -1;
};

void GiveIds(const Bpe& model, std::vector<AddedToken>& tokens) {
  IdCounter counter(model);
  for (AddedToken& token : tokens) {
    if (token.id == kCountedId) token.id = counter.IdFor(token.content);
    counter.Take(token.id);
  }
}

// A file with other ids would have different meanings there and here.
Status CheckIds(const Bpe& model, const std::vector<AddedToken>& tokens) {
  IdCounter counter(model);
  for (const AddedToken& token : tokens) {
    if (token.id != counter.IdFor(token.content))
      return Unsupported("'{}' has id {}, and the library `tokenizers` gives it {}",
                         EscapeControl(token.content), token.id, counter.next())
          .member("added_tokens");
    counter.Take(token.id);
  }
  return OkStatus();
}

// If a token strips white space that another token consists of, which itself strips white space
// before it, the library's result depends on the text before both, or it fails.
Status CheckStrips(const std::vector<AddedToken>& tokens) {
  const auto taker = std::ranges::find(tokens, true, &AddedToken::rstrip);
  const auto taken = std::ranges::find_if(tokens, [](const AddedToken& token) {
    return token.lstrip && !token.content.empty() && Strip(token.content) != token.content;
  });
  if (taker == tokens.end() || taken == tokens.end()) return OkStatus();
  return Error(
             Errc::kUnsupported,
             fmt::format("'{}' takes the white space after it (rstrip), and '{}', which takes that "
                         "before it (lstrip), has some itself",
                         EscapeControl(taker->content), EscapeControl(taken->content)))
      .member("added_tokens");
}

Status Index(const Bpe& model, const Normalizer& normalizer, AddedVocabulary* added) {
  GiveIds(model, added->tokens);
  for (const AddedToken& token : added->tokens) {
    NXDKIT_TRY(CheckAgainstModel(token, model));
    if (!added->by_content.emplace(token.content, &token).second ||
        !added->by_id.emplace(token.id, &token).second)
      return Corrupt("'{}' with id {}: its content or id occurs twice",
                     EscapeControl(token.content), token.id)
          .member("added_tokens");
  }
  for (const AddedToken& token : added->tokens) {
    if (!token.normalized) continue;
    NXDKIT_ASSIGN(std::string normalized, normalizer.Apply(token.content));
    if (normalized != token.content) added->normalized.emplace(token.id, std::move(normalized));
  }
  NXDKIT_TRY(CheckIds(model, added->tokens));
  NXDKIT_TRY(CheckStrips(added->tokens));
  NXDKIT_ASSIGN(added->in_raw, MakeFinder(added->tokens, false, normalizer));
  NXDKIT_ASSIGN(added->in_normalized, MakeFinder(added->tokens, true, normalizer));
  return OkStatus();
}

}  // namespace

struct Tokenizer::Parts {
  AddedVocabulary added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  Surroundings around;
  TokenDecoder decoder;

  Status EncodeWords(std::string_view text, bool first, std::vector<int32_t>* ids) const {
    Words words;
    NXDKIT_TRY(pre_tokenizer.Split(text, first, &words));
    for (const std::string_view word : words.list) {
      NXDKIT_TRY(model.CheckWord(word));
      model.Encode(word, ids);
    }
    return OkStatus();
  }

  Status EncodeText(std::string_view text, bool first, std::vector<int32_t>* ids) const {
    std::string normalized;
    if (!normalizer.empty()) {
      NXDKIT_ASSIGN(normalized, normalizer.Apply(text));
      text = normalized;
    }
    std::vector<TextPart> parts;
    added.in_normalized->Split(text, &parts);
    for (const TextPart& part : parts) {
      if (part.id >= 0)
        ids->push_back(part.id);
      else
        NXDKIT_TRY(EncodeWords(part.text, first && part.text.data() == text.data(), ids));
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
  return Parse(json).in(path);
}

Result<Tokenizer> Tokenizer::Parse(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  return TokenizerMaker::FromJson(json);
}

Result<Tokenizer> TokenizerMaker::FromJson(const Json& json) {
  if (!json.is_object()) return Corrupt("found {}, expected an object", JsonTypeText(json));
  const Json* model = JsonFind(json, "model");
  if (model == nullptr) return Corrupt("the key is missing").member("model");

  AddedVocabulary added;
  NXDKIT_ASSIGN(added.tokens, ReadAddedTokens(JsonFind(json, "added_tokens")));
  NXDKIT_ASSIGN(Normalizer normalizer, Normalizer::FromJson(JsonFind(json, "normalizer")));
  NXDKIT_ASSIGN(PreTokenizer pre, PreTokenizer::FromJson(JsonFind(json, "pre_tokenizer")));
  // The library looks at the first character of the original text.
  if (pre.LooksAtBeginning() && normalizer.MovesBeginning())
    return Error(
               Errc::kUnsupported,
               "Metaspace with prepend_scheme 'first' after a normalizer that moves the beginning")
        .member("pre_tokenizer");
  NXDKIT_ASSIGN(Surroundings around, ReadPostProcessor(JsonFind(json, "post_processor")));
  NXDKIT_ASSIGN(TokenDecoder decoder, TokenDecoder::FromJson(JsonFind(json, "decoder")));
  NXDKIT_ASSIGN(Bpe bpe, Bpe::FromJson(*model, pre.byte_level()));
  NXDKIT_TRY(Index(bpe, normalizer, &added));
  return Tokenizer(std::make_unique<const Tokenizer::Parts>(
      Tokenizer::Parts{std::move(added), std::move(normalizer), std::move(pre), std::move(bpe),
                       std::move(around), std::move(decoder)}));
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               bool add_special_tokens) const {
  if (text.size() > kMaxTextBytes)
    return OverLimit("text of {} bytes is over the limit of {}", text.size(), kMaxTextBytes);
  if (const auto bad = ValidateUtf8(text))
    return Corrupt("the text to encode is not UTF-8").at(*bad);
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = parts_->around.before;
  std::vector<TextPart> parts;
  parts_->added.in_raw->Split(text, &parts);
  for (const TextPart& part : parts) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      NXDKIT_TRY(parts_->EncodeText(part.text, part.text.data() == text.data(), &ids));
  }
  if (add_special_tokens)
    ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  for (const int32_t id : ids) {
    const auto changed = parts_->added.normalized.find(id);
    const bool as_is = changed == parts_->added.normalized.end();
    if (skip_special_tokens && as_is && IsSpecial(id)) continue;
    const std::string* token = as_is ? parts_->TokenOf(id) : &changed->second;
    if (token != nullptr) tokens.push_back(*token);
  }
  return parts_->decoder.Decode(tokens);
}

bool Tokenizer::byte_level() const { return parts_->pre_tokenizer.byte_level(); }

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
