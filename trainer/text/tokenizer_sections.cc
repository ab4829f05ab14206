#include "trainer/text/tokenizer_sections.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/text/step_list.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxContentBytes = 1024;                // a search compares it at every position
constexpr size_t kMaxAllContentBytes = size_t{4} << 20;  // each byte is a node of a tree
constexpr int64_t kMaxId = (int64_t{1} << 24) - 1;

Result<int32_t> IdOf(const Json& json, std::string_view member) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > uint64_t{kMaxId})
    return Corrupt("id {}, expected 0 to {}", JsonExcerpt(json), kMaxId).member(member);
  return static_cast<int32_t>(json.get<int64_t>());
}

Result<AddedToken> ReadAddedToken(const Json& json) {
  if (!json.is_object()) return Corrupt("found {}, expected an object", JsonTypeText(json));
  AddedToken token;
  const Json* id = JsonFind(json, "id");
  NXDKIT_ASSIGN(token.content, JsonString(json, "content"));
  if (id != nullptr) NXDKIT_TRY(IdOf(*id, token.content).To(token.id));
  NXDKIT_ASSIGN(token.special, JsonBool(json, "special"));
  NXDKIT_ASSIGN(token.single_word, JsonBool(json, "single_word"));
  NXDKIT_ASSIGN(token.lstrip, JsonBool(json, "lstrip"));
  NXDKIT_ASSIGN(token.rstrip, JsonBool(json, "rstrip"));
  NXDKIT_ASSIGN(token.normalized, JsonBool(json, "normalized"));
  if (token.content.empty() || token.content.size() > kMaxContentBytes)
    return Corrupt("content of {} bytes, expected 1 to {}", token.content.size(), kMaxContentBytes);
  return token;
}

// {"single": [{"SpecialToken": {"id": "bos"}}, {"Sequence": {"id": "A"}}],
//  "special_tokens": {"bos": {"ids": [1]}}}
Status ApplyTemplate(const Json& json, Surroundings* around) {
  constexpr std::string_view kMember = "post_processor";
  NXDKIT_ASSIGN(const Json* single, ListOf(json, "single", kMember));
  std::vector<int32_t> before, after;
  bool passed = false;  // the text itself
  for (const Json& part : *single) {
    if (JsonFind(part, "Sequence") != nullptr) {
      if (passed) return Unsupported("a template with two sequences").member(kMember);
      passed = true;
      continue;
    }
    const Json* special = JsonFind(part, "SpecialToken");
    if (special == nullptr) return Corrupt("template part {}", JsonExcerpt(part)).member(kMember);
    NXDKIT_ASSIGN(const std::string name, JsonString(*special, "id"));
    const Json* table = JsonFind(json, "special_tokens");
    const Json* entry = table == nullptr ? nullptr : JsonFind(*table, name);
    if (entry == nullptr) return Corrupt("template token '{}' has no ids", name).member(kMember);
    NXDKIT_ASSIGN(const Json* ids, ListOf(*entry, "ids", kMember));
    for (const Json& value : *ids) {
      NXDKIT_ASSIGN(const int32_t id, IdOf(value, kMember));
      (passed ? after : before).push_back(id);
    }
  }
  if (!passed) return Unsupported("a template without a sequence").member(kMember);
  around->before.insert(around->before.begin(), before.begin(), before.end());
  around->after.insert(around->after.end(), after.begin(), after.end());
  return OkStatus();
}

}  // namespace

Result<std::vector<AddedToken>> ReadAddedTokens(const Json* json) {
  std::vector<AddedToken> tokens;
  if (json == nullptr) return tokens;
  if (!json->is_array())
    return Corrupt("found {}, expected an array", JsonTypeText(*json)).member("added_tokens");
  size_t all_bytes = 0;
  for (const Json& row : *json) {
    Result<AddedToken> token = ReadAddedToken(row);
    if (!token.ok())
      return std::move(token).error().member(fmt::format("added_tokens[{}]", tokens.size()));
    all_bytes += token->content.size();
    if (all_bytes > kMaxAllContentBytes)
      return Corrupt("contents of more than {} bytes", kMaxAllContentBytes).member("added_tokens");
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

Result<Surroundings> ReadPostProcessor(const Json* json) {
  const StepList part = {"post_processor",
                         "processors",
                         {"ByteLevel", "TemplateProcessing"},
                         "ByteLevel, TemplateProcessing or a flat Sequence"};
  Surroundings around;
  const auto read = [&](std::string_view type, const Json& step) {
    // ByteLevel moves offsets, which are not kept here.
    return type == "ByteLevel" ? OkStatus() : ApplyTemplate(step, &around);
  };
  if (json != nullptr) NXDKIT_TRY(ForEachStep(*json, part, read));
  return around;
}

}  // namespace nxdkit::trainer
