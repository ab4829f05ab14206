#include "trainer/text/token_settings.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxSettingsFile = uint64_t{64} << 20;
constexpr std::string_view kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kFurther[] = {"additional_special_tokens", "extra_special_tokens"};

Result<bool> FlagOf(const Json& json, const char* key, bool fallback) {
  const Json* value = JsonFind(json, key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  return Corrupt("found {}, expected a bool", JsonTypeText(*value)).member(key);
}

// "<s>", or an object with its flags.
Result<AddedToken> TokenFrom(const Json& value, bool special) {
  AddedToken token;
  token.special = special;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  if (!value.is_object()) return Corrupt("found {}, expected a token", JsonTypeText(value));
  NXDKIT_ASSIGN(token.content, JsonString(value, "content"));
  NXDKIT_ASSIGN(const bool says_special, FlagOf(value, "special", false));
  token.special = special || says_special;
  NXDKIT_ASSIGN(token.normalized, FlagOf(value, "normalized", !token.special));
  NXDKIT_ASSIGN(token.single_word, FlagOf(value, "single_word", false));
  NXDKIT_ASSIGN(token.lstrip, FlagOf(value, "lstrip", false));
  NXDKIT_ASSIGN(token.rstrip, FlagOf(value, "rstrip", false));
  return token;
}

// {"128000": {"content": "<s>", ...}}
Status ReadDecoder(const Json& rows, TokenSettings* settings) {
  constexpr std::string_view kKey = "added_tokens_decoder";
  if (!rows.is_object())
    return Corrupt("found {}, expected an object", JsonTypeText(rows)).member(kKey);
  std::map<int32_t, AddedToken> by_id;
  for (const auto& [key, row] : rows.items()) {
    const std::optional<int32_t> id = ParseNumber<int32_t>(key);
    if (!id) return Corrupt("'{}' is not an id", EscapeControl(key)).member(kKey);
    NXDKIT_ASSIGN(by_id[*id], TokenFrom(row, false).member(kKey));
  }
  for (auto& [id, token] : by_id) settings->rows.push_back(std::move(token));
  return OkStatus();
}

// {"<s>": 128000}
Status ReadLegacyTokens(const Json& json, TokenSettings* settings) {
  std::map<int64_t, AddedToken> by_id;
  const auto is_special = [&](const std::string& content) {
    const auto is_it = [&](const AddedToken& token) { return token.content == content; };
    return std::ranges::any_of(settings->named, is_it) ||
           std::ranges::any_of(settings->further, is_it);
  };
  for (const auto& [content, id] : json.items()) {
    if (!id.is_number_integer())
      return Corrupt("found {}, expected an id", JsonTypeText(id)).member(content);
    const bool special = is_special(content);
    by_id[id.get<int64_t>()] = {.content = content, .special = special, .normalized = !special};
  }
  for (auto& [id, token] : by_id) settings->rows.push_back(std::move(token));
  return OkStatus();
}

Status ReadNamed(const Json& json, TokenSettings* settings) {
  for (const std::string_view key : kNamed) {
    const Json* value = JsonFind(json, key);
    if (value == nullptr) continue;
    NXDKIT_ASSIGN(AddedToken token, TokenFrom(*value, true).member(key));
    if (key == "bos_token") settings->bos = token.content;
    if (key == "eos_token") settings->eos = token.content;
    if (key == "pad_token") settings->pad = token.content;
    if (!token.content.empty()) settings->named.push_back(std::move(token));
  }
  for (const std::string_view key : kFurther) {
    const Json* list = JsonFind(json, key);
    if (list == nullptr) continue;
    if (!list->is_structured())
      return Corrupt("found {}, expected a list of tokens", JsonTypeText(*list)).member(key);
    for (const Json& value : *list) {  // the values of an object
      NXDKIT_ASSIGN(AddedToken token, TokenFrom(value, true).member(key));
      settings->further.push_back(std::move(token));
    }
  }
  return OkStatus();
}

// "added_tokens" of a tokenizer.json, by content.
class Rows {
 public:
  explicit Rows(Json& rows) : rows_(rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const Json* content = JsonFind(rows[i], "content");
      if (content != nullptr && content->is_string()) by_content_.emplace(*content, i);
    }
  }

  bool Has(const std::string& content) const { return by_content_.contains(content); }

  // Puts a token with these flags; a special token stays special.
  void Put(const AddedToken& token) {
    const auto [place, is_new] = by_content_.emplace(token.content, rows_.size());
    if (is_new) rows_.push_back({{"content", token.content}, {"special", false}});
    Json& row = rows_[place->second];
    const bool was_special = row.value("special", Json(false)) == true;
    row.update({{"special", token.special || was_special},
                {"normalized", token.normalized},
                {"single_word", token.single_word},
                {"lstrip", token.lstrip},
                {"rstrip", token.rstrip}});
  }
  void PutIfNew(const AddedToken& token) {
    if (!Has(token.content)) Put(token);
  }
  void SetSpecial(const std::string& content) {
    rows_[by_content_.find(content)->second]["special"] = true;
  }

 private:
  Json& rows_;
  std::unordered_map<std::string, size_t> by_content_;
};

Status CheckSplits(const Json& config) {
  constexpr const char* kKey = "split_special_tokens";
  NXDKIT_ASSIGN(const bool splits, FlagOf(config, kKey, false));
  if (!splits) return OkStatus();
  return Unsupported("special tokens that are not found in texts").member(kKey);
}

}  // namespace

Result<Json> ReadObject(const std::string& folder, const char* name) {
  const std::string path = JoinPath(folder, name);
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return Json::object();
  NXDKIT_ASSIGN(Json json, ReadJsonFile(path, kMaxSettingsFile, {.allow_nan = true}));
  if (json.is_object()) return json;
  return Corrupt("found {}, expected an object", JsonTypeText(json)).in(path);
}

Result<TokenSettings> ReadTokenSettings(const std::string& folder) {
  constexpr const char* kConfig = "tokenizer_config.json";
  constexpr const char* kLegacy = "added_tokens.json";
  TokenSettings settings;
  NXDKIT_ASSIGN(settings.config, ReadObject(folder, kConfig));
  const Json* decoder = JsonFind(settings.config, "added_tokens_decoder");
  settings.has_rows_of_config = decoder != nullptr;
  Json names = settings.config;
  if (decoder == nullptr) {
    // From before tokenizer_config.json had the tokens, which takes precedence.
    NXDKIT_ASSIGN(const Json map, ReadObject(folder, "special_tokens_map.json"));
    names.update(map);
  }
  Status read = CheckSplits(settings.config);
  if (read.ok() && decoder != nullptr) read = ReadDecoder(*decoder, &settings);
  if (read.ok()) read = ReadNamed(names, &settings);
  if (!read.ok()) return std::move(read).error().in(JoinPath(folder, kConfig));
  if (decoder != nullptr) return settings;
  NXDKIT_ASSIGN(const Json legacy, ReadObject(folder, kLegacy));
  read = ReadLegacyTokens(legacy, &settings);
  if (!read.ok()) return std::move(read).error().in(JoinPath(folder, kLegacy));
  return settings;
}

void ApplyTokenSettings(const TokenSettings& settings, Json* tokenizer) {
  Json& json = (*tokenizer)["added_tokens"];
  if (json.is_null()) json = Json::array();
  if (!json.is_array()) return;  // its reader reports the fault
  Rows rows(json);
  for (const AddedToken& token : settings.rows)
    settings.has_rows_of_config ? rows.Put(token) : rows.PutIfNew(token);
  const auto has_row = [&](const AddedToken& token) {
    return !settings.has_rows_of_config ||
           std::ranges::find(settings.rows, token.content, &AddedToken::content) !=
               settings.rows.end();
  };
  for (const AddedToken& token : settings.named) {
    const bool was_there = rows.Has(token.content);
    rows.PutIfNew(token);
    if (was_there && has_row(token)) rows.SetSpecial(token.content);
  }
  for (const AddedToken& token : settings.further) rows.PutIfNew(token);
}

}  // namespace nxdkit::trainer
