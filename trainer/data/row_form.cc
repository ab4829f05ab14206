#include "trainer/data/row_form.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kPrompt = "prompt", kAnswer = "answer";  // unless another one is said

Error BadValue(const Json& value, std::string_view key, std::string_view expected) {
  return Corrupt("found {}, expected {}", JsonExcerpt(value), expected).member(key);
}

Result<const Json*> Column(const Json& row, std::string_view key) {
  const auto found = row.find(key);
  if (found != row.end()) return &*found;
  std::string keys;
  for (const auto& [name, value] : row.items())
    if (keys.size() < 200) keys += (keys.empty() ? "" : ", ") + name;
  return Corrupt("the column is missing; there are: {}", keys)
      .member(key)
      .hint("data.prompt_key and data.answer_key say which columns are read");
}

Result<std::string> TextOf(const Json& value, std::string_view key) {
  if (!value.is_string()) return BadValue(value, key, "a text");
  return value.get<std::string>();
}

// Answers are texts; numbers are taken as Python would print them.
Result<std::string> AnswerOf(const Json& value, std::string_view key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  if (value.is_number_float() && std::isfinite(value.get<double>()))
    return PythonFloat(value.get<double>());
  Error error = BadValue(value, key, "a text or a finite number");
  if (!value.is_null()) return error;
  return std::move(error).hint(
      "leave out the rows without an answer, or name another column: data.answer_key");
}

Result<std::string> AnswerIn(const Json& row, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Column(row, key));
  return AnswerOf(*value, key);
}

struct RoleWord {
  std::string_view word;
  std::string_view role;
};
constexpr RoleWord kRoles[] = {
    {"user", "user"},           {"human", "user"},    {"system", "system"},
    {"assistant", "assistant"}, {"gpt", "assistant"}, {"model", "assistant"},
};

// A text, or a list of parts that are texts.
Result<std::string> ContentOf(const Json& value, std::string_view key) {
  if (!value.is_array()) return TextOf(value, key);
  std::string text;
  for (const Json& part : value) {
    const Json* type = part.is_object() ? JsonFind(part, "type") : nullptr;
    const Json* own = part.is_object() ? JsonFind(part, "text") : nullptr;
    if (type != nullptr && *type != "text")
      return Unsupported("a message with {}", JsonExcerpt(*type)).member(key);
    if (own == nullptr || !own->is_string()) return BadValue(part, key, "a part with a text");
    text += own->get<std::string>();
  }
  return text;
}

// `role` and `content`: how the two are called in a message.
Result<std::vector<ChatMessage>> MessagesOf(const Json& value, std::string_view key,
                                            std::string_view role, std::string_view content) {
  if (!value.is_array() || value.empty()) return BadValue(value, key, "a list of messages");
  std::vector<ChatMessage> messages;
  for (const Json& message : value) {
    const Json* who = message.is_object() ? JsonFind(message, role) : nullptr;
    const Json* what = message.is_object() ? JsonFind(message, content) : nullptr;
    if (who == nullptr || what == nullptr || !who->is_string())
      return BadValue(message, key, fmt::format("a message with {} and {}", role, content));
    const auto* known =
        std::ranges::find(kRoles, who->get_ref<const std::string&>(), &RoleWord::word);
    if (known == std::end(kRoles))
      return Unsupported("a message of {}, expected system, user or assistant", JsonExcerpt(*who))
          .member(key);
    NXDKIT_ASSIGN(std::string text, ContentOf(*what, key));
    messages.push_back({std::string(known->role), std::move(text)});
  }
  return messages;
}

Status EndsWithUser(const std::vector<ChatMessage>& messages, std::string_view key) {
  if (!messages.empty() && messages.back().role == "user") return OkStatus();
  return Corrupt("the last message before the answer is of {}, expected user",
                 messages.empty() ? "nobody" : messages.back().role)
      .member(key);
}

// The user's text, or messages.
Result<std::vector<ChatMessage>> PromptIn(const Json& row, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Column(row, key));
  if (value->is_string()) return std::vector<ChatMessage>{{"user", value->get<std::string>()}};
  if (!value->is_array() || value->empty() || !value->front().is_object())
    return BadValue(*value, key, "a text");
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, MessagesOf(*value, key, "role", "content"));
  NXDKIT_TRY(EndsWithUser(messages, key));
  return messages;
}

// The last message is the answer to those before it.
Result<RowText> LastIsAnswer(std::vector<ChatMessage> messages, std::string_view key) {
  if (messages.back().role != "assistant")
    return Corrupt("the last message is of {}, expected assistant, whose text is the answer",
                   messages.back().role)
        .member(key);
  RowText text;
  text.answer = std::move(messages.back().content);
  messages.pop_back();
  NXDKIT_TRY(EndsWithUser(messages, key));
  text.messages = std::move(messages);
  return text;
}

// LLaMA-Factory's column beside the others.
Status AddSystem(const Json& row, std::vector<ChatMessage>& messages) {
  const Json* system = JsonFind(row, "system");
  if (system == nullptr || *system == "") return OkStatus();
  NXDKIT_ASSIGN(std::string text, TextOf(*system, "system"));
  messages.insert(messages.begin(), {"system", std::move(text)});
  return OkStatus();
}

bool Has(const Json& row, std::string_view key) { return row.contains(key); }
const Json* GroundTruth(const Json& row) {
  const Json* reward = JsonFind(row, "reward_model");
  return reward != nullptr && reward->is_object() ? JsonFind(*reward, "ground_truth") : nullptr;
}

bool HasColumns(const Json& row, const RowKeys& keys) {
  return Has(row, keys.prompt) && Has(row, keys.answer);
}
Result<RowText> ReadColumns(const Json& row, const RowKeys& keys) {
  RowText text;
  NXDKIT_TRY(PromptIn(row, keys.prompt).To(text.messages));
  NXDKIT_TRY(AnswerIn(row, keys.answer).To(text.answer));
  return text;
}

bool IsVerl(const Json& row, const RowKeys& keys) {
  return keys.answer == kAnswer && Has(row, keys.prompt) && GroundTruth(row) != nullptr;
}
Result<RowText> ReadVerl(const Json& row, const RowKeys& keys) {
  RowText text;
  NXDKIT_TRY(PromptIn(row, keys.prompt).To(text.messages));
  const Json* truth = GroundTruth(row);
  if (truth == nullptr)
    return Corrupt("it is missing, other rows have it").member("reward_model.ground_truth");
  NXDKIT_TRY(AnswerOf(*truth, "reward_model.ground_truth").To(text.answer));
  return text;
}

bool IsCompletion(const Json& row, const RowKeys& keys) {
  return keys.answer == kAnswer && Has(row, keys.prompt) && Has(row, "completion");
}
Result<RowText> ReadCompletion(const Json& row, const RowKeys& keys) {
  RowText text;
  NXDKIT_TRY(PromptIn(row, keys.prompt).To(text.messages));
  NXDKIT_ASSIGN(const Json* completion, Column(row, "completion"));
  if (!completion->is_array()) {
    NXDKIT_TRY(AnswerOf(*completion, "completion").To(text.answer));
    return text;
  }
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages,
                MessagesOf(*completion, "completion", "role", "content"));
  if (messages.size() != 1 || messages[0].role != "assistant")
    return BadValue(*completion, "completion", "one message of assistant");
  text.answer = std::move(messages[0].content);
  return text;
}

bool IsUnsaid(const RowKeys& keys) { return keys.prompt == kPrompt && keys.answer == kAnswer; }

bool IsMessages(const Json& row, const RowKeys& keys) {
  return IsUnsaid(keys) && !Has(row, kPrompt) && Has(row, "messages");
}
Result<RowText> ReadMessages(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(const Json* value, Column(row, "messages"));
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages,
                MessagesOf(*value, "messages", "role", "content"));
  if (!Has(row, kAnswer)) return LastIsAnswer(std::move(messages), "messages");
  RowText text{std::move(messages), ""};
  NXDKIT_TRY(EndsWithUser(text.messages, "messages"));
  NXDKIT_TRY(AnswerIn(row, kAnswer).To(text.answer));
  return text;
}

bool IsShareGpt(const Json& row, const RowKeys& keys) {
  return IsUnsaid(keys) && !Has(row, kPrompt) && Has(row, "conversations");
}
Result<RowText> ReadShareGpt(const Json& row, const RowKeys&) {
  constexpr std::string_view kKey = "conversations";
  NXDKIT_ASSIGN(const Json* value, Column(row, kKey));
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, MessagesOf(*value, kKey, "from", "value"));
  NXDKIT_TRY(AddSystem(row, messages));
  return LastIsAnswer(std::move(messages), kKey);
}

bool IsAlpaca(const Json& row, const RowKeys& keys) {
  return IsUnsaid(keys) && !Has(row, kPrompt) && Has(row, "instruction") && Has(row, "output");
}
Result<RowText> ReadAlpaca(const Json& row, const RowKeys&) {
  const Json* history = JsonFind(row, "history");
  if (history != nullptr && !history->empty())
    return Unsupported("a row with a history").member("history");
  NXDKIT_ASSIGN(const Json* instruction, Column(row, "instruction"));
  NXDKIT_ASSIGN(std::string prompt, TextOf(*instruction, "instruction"));
  const Json* input = JsonFind(row, "input");
  if (input != nullptr) {
    NXDKIT_ASSIGN(const std::string more, TextOf(*input, "input"));
    if (!more.empty()) prompt += "\n" + more;
  }
  RowText text{{{"user", std::move(prompt)}}, ""};
  NXDKIT_TRY(AddSystem(row, text.messages));
  NXDKIT_TRY(AnswerIn(row, "output").To(text.answer));
  return text;
}

// The first that fits; the first of all where none does, whose fault is then told.
constexpr RowForm kForms[] = {
    {"", "", HasColumns, ReadColumns},
    {"verl", "prompt, and reward_model.ground_truth as the answer", IsVerl, ReadVerl},
    {"TRL", "prompt, and completion as the answer", IsCompletion, ReadCompletion},
    {"TRL", "messages, the last of which is the answer unless the row has one", IsMessages,
     ReadMessages},
    {"ShareGPT", "conversations, the last turn of which is the answer", IsShareGpt, ReadShareGpt},
    {"Alpaca", "instruction, a line feed and input as the prompt, output as the answer", IsAlpaca,
     ReadAlpaca},
};

}  // namespace

const RowForm& FormOf(const Json& first_row, const RowKeys& keys) {
  const auto* form =
      std::ranges::find_if(kForms, [&](const RowForm& f) { return f.fits(first_row, keys); });
  return form == std::end(kForms) ? kForms[0] : *form;
}

std::vector<std::string> ColumnsOfForms() {
  return {"reward_model", "completion", "messages", "conversations", "system",
          "instruction",  "input",      "output",   "history"};
}

}  // namespace nxdkit::trainer
