#include "trainer/text/special_tokens.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "trainer/text/token_settings.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxEosIds = 1000;

Result<std::optional<int32_t>> IdOf(const std::string& token, std::string_view key,
                                    const Tokenizer& tokenizer) {
  if (token.empty()) return std::optional<int32_t>();
  const std::optional<int32_t> id = tokenizer.TokenId(token);
  if (id) return id;
  return Corrupt("'{}' is not a token", EscapeControl(token)).member(key);
}

Result<int32_t> CheckId(const Json& value, std::string_view key, const Tokenizer& tokenizer) {
  if (value.is_number_unsigned() && value.get<uint64_t>() < uint64_t(tokenizer.id_limit()))
    return static_cast<int32_t>(value.get<int64_t>());
  return Corrupt("{} is not an id, expected 0 to {}", JsonExcerpt(value), tokenizer.id_limit() - 1)
      .member(key);
}

// An id, or a list of ids; empty if there is none.
Result<std::vector<int32_t>> Ids(const Json& config, std::string_view key,
                                 const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  const Json* value = JsonFind(config, key);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxEosIds)
    return Corrupt("{} ids, the limit is {}", list.size(), kMaxEosIds).member(key);
  for (const Json& item : list) {
    NXDKIT_ASSIGN(const int32_t id, CheckId(item, key, tokenizer));
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

std::string IdText(const std::optional<int32_t>& id) {
  return id ? fmt::format("{} in the tokenizer", *id) : "is not in the tokenizer";
}

// A token that only tokenizer_config.json has gets the next id, whatever that file says, and one in
// tokenizer.json keeps its own.
Status CheckAddedTokens(const Json& config, const Tokenizer& tokenizer) {
  constexpr std::string_view kKey = "added_tokens_decoder";
  const Json* rows = JsonFind(config, kKey);
  if (rows == nullptr || !rows->is_object()) return OkStatus();
  for (const auto& [key, row] : rows->items()) {
    const std::optional<int32_t> id = ParseNumber<int32_t>(key);
    NXDKIT_ASSIGN(const std::string content, JsonString(row, "content"));
    if (id && tokenizer.TokenId(content) == id) continue;
    return Corrupt("'{}' has id {} here, and {}", EscapeControl(content), EscapeControl(key),
                   IdText(tokenizer.TokenId(content)))
        .member(kKey);
  }
  return OkStatus();
}

struct Files {
  TokenSettings settings;
  Json generation_config;
  Json config;
};

Result<SpecialTokens> Read(const Files& files, const Tokenizer& tokenizer) {
  NXDKIT_TRY(CheckAddedTokens(files.settings.config, tokenizer));
  SpecialTokens special;
  special.bos_token = files.settings.bos;
  special.eos_token = files.settings.eos;
  NXDKIT_ASSIGN(special.bos, IdOf(special.bos_token, "bos_token", tokenizer));
  NXDKIT_ASSIGN(const auto eos, IdOf(special.eos_token, "eos_token", tokenizer));
  NXDKIT_ASSIGN(std::optional<int32_t> pad, IdOf(files.settings.pad, "pad_token", tokenizer));

  for (const Json* config : {&files.generation_config, &files.config}) {
    if (!special.eos_ids.empty()) break;
    NXDKIT_ASSIGN(special.eos_ids, Ids(*config, "eos_token_id", tokenizer));
  }
  if (special.eos_ids.empty() && eos) special.eos_ids.push_back(*eos);
  if (special.eos_ids.empty())
    return NotFound(
        "neither generation_config.json nor config.json has eos_token_id, and "
        "tokenizer_config.json has no eos_token");

  if (!pad) pad = eos;
  if (!pad) {
    NXDKIT_ASSIGN(const auto ids, Ids(files.generation_config, "pad_token_id", tokenizer));
    pad = ids.empty() ? special.eos_ids.front() : ids.front();
  }
  special.pad = *pad;
  return special;
}

}  // namespace

Result<SpecialTokens> LoadSpecialTokens(const std::string& folder, const std::string& model,
                                        const Tokenizer& tokenizer) {
  Files files;
  NXDKIT_ASSIGN(files.settings, ReadTokenSettings(folder));
  const auto of_model = [&](const char* name) -> Result<Json> {
    NXDKIT_ASSIGN(const bool there, HasFile(model, name));
    return ReadObject(there ? model : folder, name);
  };
  NXDKIT_ASSIGN(files.generation_config, of_model("generation_config.json"));
  NXDKIT_ASSIGN(files.config, of_model("config.json"));
  return Read(files, tokenizer).in(folder);
}

}  // namespace nxdkit::trainer
