// The chat template of a model: turns messages into the text form that the model was trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trainer/template/jinja.h"

namespace nxdkit::trainer {

struct ChatMessage {
  std::string role;  // "user", "system", "assistant"
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  // Undefined in the template when absent: hybrid models then use their default.
  std::optional<bool> enable_thinking = {};
  std::string bos_token = {};  // empty: undefined in the template
  std::string eos_token = {};
  // Unix time for strftime_now, in UTC. If absent, the function is undefined, and templates that
  // print a date use a fixed one. transformers prints today's date; a prompt that changes from day
  // to day is not suitable for training.
  std::optional<int64_t> now = {};
};

// Thread-safe once loaded. Move-only.
class ChatTemplate {
 public:
  static Result<ChatTemplate> Parse(std::string_view source);
  // Reads a file with a template (override_chat_template).
  static Result<ChatTemplate> Open(const std::string& path);
  // chat_template.jinja of a model's folder, else `chat_template` of tokenizer_config.json: a text,
  // or a list of named ones, of which "default" is used. kNotFound when there is none.
  static Result<ChatTemplate> Load(const std::string& folder);

  // Errors of jinja.h.
  Result<std::string> Render(std::span<const ChatMessage> messages,
                             const ChatOptions& options) const;

  // Whether the name occurs in the template.
  bool Mentions(std::string_view name) const { return template_.Mentions(name); }
  // The source as it was read, to be saved with the tokenizer.
  const std::string& source() const { return source_; }

 private:
  ChatTemplate(jinja::Template parsed, std::string source)
      : template_(std::move(parsed)), source_(std::move(source)) {}
  jinja::Template template_;
  std::string source_;
};

// The text around a prompt: a Jinja file in which {{ content }} is the prompt. White space around
// the file's text is not part of it.
class PromptFormat {
 public:
  // kCorrupt as in jinja.h, and for a template that does not mention `content`.
  static Result<PromptFormat> Parse(std::string_view source);
  static Result<PromptFormat> Open(const std::string& path);

  Result<std::string> Render(std::string_view content) const;

 private:
  explicit PromptFormat(jinja::Template parsed) : template_(std::move(parsed)) {}
  jinja::Template template_;
};

}  // namespace nxdkit::trainer
