#include "trainer/data/row_form.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kPrompt = "prompt", kAnswer = "answer";  // unless others are set

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

// Answers are text; numbers are printed as Python would.
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

struct MessageWords {
  std::string_view role, content;
};
constexpr MessageWords kMessageWords[] = {{"role", "content"}, {"from", "value"}};

Result<ChatMessage> MessageOf(const Json& message, std::string_view key) {
  for (const MessageWords& words : kMessageWords) {
    const Json* who = message.is_object() ? JsonFind(message, words.role) : nullptr;
    const Json* what = message.is_object() ? JsonFind(message, words.content) : nullptr;
    if (who == nullptr || what == nullptr || !who->is_string()) continue;
    const auto* known =
        std::ranges::find(kRoles, who->get_ref<const std::string&>(), &RoleWord::word);
    if (known == std::end(kRoles))
      return Unsupported("a message of role {}, expected system, user or assistant",
                         JsonExcerpt(*who))
          .member(key);
    NXDKIT_ASSIGN(std::string text, ContentOf(*what, key));
    return ChatMessage{std::string(known->role), std::move(text)};
  }
  return BadValue(message, key, "a message with role and content, or from and value");
}

Result<std::vector<ChatMessage>> MessagesOf(const Json& value, std::string_view key) {
  if (!value.is_array() || value.empty()) return BadValue(value, key, "a list of messages");
  std::vector<ChatMessage> messages;
  for (const Json& message : value) {
    NXDKIT_ASSIGN(ChatMessage one, MessageOf(message, key));
    messages.push_back(std::move(one));
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
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, MessagesOf(*value, key));
  NXDKIT_TRY(EndsWithUser(messages, key));
  return messages;
}

// The last message is the answer to those before it.
Result<std::string> LastIsAnswer(std::vector<ChatMessage> messages, std::string_view key) {
  if (messages.back().role == "assistant") return std::move(messages.back().content);
  return Corrupt("the last message is of {}, expected assistant, whose text is the answer",
                 messages.back().role)
      .member(key);
}

// A solution at the end is not part of the prompt.
Result<std::vector<ChatMessage>> WithoutSolution(std::vector<ChatMessage> messages,
                                                 std::string_view key) {
  if (messages.back().role == "assistant") messages.pop_back();
  NXDKIT_TRY(EndsWithUser(messages, key));
  return messages;
}

// LLaMA-Factory's separate column.
Status AddSystem(const Json& row, std::vector<ChatMessage>& messages) {
  const Json* system = JsonFind(row, "system");
  if (system == nullptr || *system == "") return OkStatus();
  NXDKIT_ASSIGN(std::string text, TextOf(*system, "system"));
  const bool has_one = messages.front().role == "system";
  if (has_one && messages.front().content == text) return OkStatus();
  if (has_one)
    return Unsupported("a row with two system messages that differ")
        .member("system")
        .hint("leave one of them out: the column, or the first message");
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
Result<std::string> ColumnAnswer(const Json& row, const RowKeys& keys) {
  return AnswerIn(row, keys.answer);
}
Result<std::vector<ChatMessage>> ColumnPrompt(const Json& row, const RowKeys& keys) {
  return PromptIn(row, keys.prompt);
}

bool IsVerl(const Json& row, const RowKeys& keys) {
  return Has(row, keys.prompt) && GroundTruth(row) != nullptr;
}
Result<std::string> VerlAnswer(const Json& row, const RowKeys&) {
  const Json* truth = GroundTruth(row);
  if (truth == nullptr)
    return Corrupt("it is missing, other rows have it").member("reward_model.ground_truth");
  return AnswerOf(*truth, "reward_model.ground_truth");
}

bool IsCompletion(const Json& row, const RowKeys& keys) {
  return Has(row, keys.prompt) && Has(row, "completion");
}
bool IsTextCompletion(const Json& row, const RowKeys& keys) {
  return IsCompletion(row, keys) && row.at(keys.prompt).is_string();
}
Result<std::string> CompletionAnswer(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(const Json* completion, Column(row, "completion"));
  if (!completion->is_array()) return AnswerOf(*completion, "completion");
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, MessagesOf(*completion, "completion"));
  if (messages.size() != 1 || messages[0].role != "assistant")
    return BadValue(*completion, "completion", "one message of assistant");
  return std::move(messages[0].content);
}

// Whether no column of prompts was chosen, and the default one is missing.
bool HasNoPrompt(const Json& row, const RowKeys& keys) {
  return keys.prompt == kPrompt && !Has(row, kPrompt);
}

Result<std::vector<ChatMessage>> Messages(const Json& row, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Column(row, key));
  return MessagesOf(*value, key);
}

constexpr std::string_view kMessages = "messages", kConversations = "conversations";

bool IsMessages(const Json& row, const RowKeys& keys) {
  return HasNoPrompt(row, keys) && Has(row, kMessages);
}
Result<std::vector<ChatMessage>> MessagesPrompt(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, Messages(row, kMessages));
  return WithoutSolution(std::move(messages), kMessages);
}
Result<std::string> MessagesAnswer(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, Messages(row, kMessages));
  return LastIsAnswer(std::move(messages), kMessages);
}

bool IsShareGpt(const Json& row, const RowKeys& keys) {
  return HasNoPrompt(row, keys) && Has(row, kConversations);
}
Result<std::vector<ChatMessage>> ShareGptPrompt(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, Messages(row, kConversations));
  NXDKIT_TRY(AddSystem(row, messages));
  return WithoutSolution(std::move(messages), kConversations);
}
Result<std::string> ShareGptAnswer(const Json& row, const RowKeys&) {
  NXDKIT_ASSIGN(std::vector<ChatMessage> messages, Messages(row, kConversations));
  return LastIsAnswer(std::move(messages), kConversations);
}

bool IsAlpaca(const Json& row, const RowKeys& keys) {
  return HasNoPrompt(row, keys) && Has(row, "instruction") &&
         (Has(row, "output") || Has(row, keys.answer));
}
Result<std::vector<ChatMessage>> AlpacaPrompt(const Json& row, const RowKeys&) {
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
  std::vector<ChatMessage> messages = {{"user", std::move(prompt)}};
  NXDKIT_TRY(AddSystem(row, messages));
  return messages;
}
Result<std::string> AlpacaAnswer(const Json& row, const RowKeys&) {
  return AnswerIn(row, "output");
}

// The first match wins; if there is none, the fault of the first form is reported.
constexpr RowForm kForms[] = {
    {"", "the column of prompts", "", HasColumns, ColumnPrompt, ColumnAnswer},
    {"verl", "prompt as the prompt", "reward_model.ground_truth", IsVerl, ColumnPrompt, VerlAnswer},
    {"TRL", "prompt as a user message through the chat template", "completion", IsTextCompletion,
     ColumnPrompt, CompletionAnswer},
    {"TRL", "prompt as the prompt", "completion", IsCompletion, ColumnPrompt, CompletionAnswer},
    {"TRL", "messages without the last of assistant as the prompt", "that last one", IsMessages,
     MessagesPrompt, MessagesAnswer},
    {"ShareGPT", "conversations without the last turn of assistant as the prompt", "that last turn",
     IsShareGpt, ShareGptPrompt, ShareGptAnswer},
    {"Alpaca", "instruction, a line feed and input as the prompt", "output", IsAlpaca, AlpacaPrompt,
     AlpacaAnswer},
};

// A chosen column of answers excludes all others.
bool MayHave(const Json& row, const RowKeys& keys) {
  return keys.answer == kAnswer || Has(row, keys.answer);
}

// "" if the columns of the options do not contradict the others of the row.
std::string OtherAnswer(const Json& row, const RowKeys& keys) {
  const Json* truth = GroundTruth(row);
  if (truth == nullptr) return "";
  const Result<std::string> other = AnswerOf(*truth, "");
  const Result<std::string> answer = AnswerIn(row, keys.answer);
  if (!other.ok() || !answer.ok() || *other == *answer) return "";
  return fmt::format("{} as the answer; reward_model.ground_truth of the first row, {}, differs",
                     keys.answer, JsonExcerpt(*truth));
}

}  // namespace

RowReading::RowReading(const Json& first_row, const RowKeys& keys) : keys_(keys) {
  const auto* form = std::ranges::find_if(kForms, [&](const RowForm& f) {
    return MayHave(first_row, keys) && f.fits(first_row, keys);
  });
  form_ = form == std::end(kForms) ? &kForms[0] : form;
  has_answer_ = form_ == &kForms[0] || Has(first_row, keys.answer);
  if (form_ == &kForms[0]) {
    text_ = OtherAnswer(first_row, keys);
    return;
  }
  text_ = fmt::format(
      "{}'s: {}, {} as the answer", form_->name, form_->prompt_text,
      has_answer_ ? "the column " + EscapeControl(keys.answer) : std::string(form_->answer_text));
}

Result<RowText> RowReading::Read(const Json& row) const {
  RowText text;
  NXDKIT_TRY(form_->prompt(row, keys_).To(text.messages));
  NXDKIT_TRY((has_answer_ ? ColumnAnswer : form_->answer)(row, keys_).To(text.answer));
  return text;
}

std::vector<std::string> ColumnsOfForms() {
  return {"reward_model", "completion", "messages", "conversations", "system",
          "instruction",  "input",      "output",   "history"};
}

}  // namespace nxdkit::trainer
