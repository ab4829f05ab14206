#include "trainer/template/chat_template.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;

// The template named "default" in [{"name": ..., "template": ...}].
Result<std::string> DefaultOf(const Json& list) {
  std::string names;
  for (const Json& row : list) {
    NXDKIT_ASSIGN(const std::string name, JsonString(row, "name"));
    if (name == "default") return JsonString(row, "template");
    names += fmt::format(" '{}'", EscapeControl(name));
  }
  return NotFound("no template is named 'default'; there are:{}", names).member("chat_template");
}

Result<std::string> SourceFromConfig(const std::string& path) {
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return NotFound("neither this file nor chat_template.jinja exists");
  NXDKIT_ASSIGN(const Json config, ReadJsonFile(path, kMaxConfigBytes, {.allow_nan = true}));
  const Json* found = JsonFind(config, "chat_template");
  if (found == nullptr)
    return NotFound("no chat_template here, and no chat_template.jinja next to it")
        .hint("give a template file (override_chat_template)");
  return found->is_array() ? DefaultOf(*found) : JsonString(config, "chat_template");
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  NXDKIT_ASSIGN(jinja::Template parsed, jinja::Template::Parse(source));
  return ChatTemplate(std::move(parsed), std::string(source));
}

Result<ChatTemplate> ChatTemplate::Open(const std::string& path) {
  NXDKIT_ASSIGN(const std::string source, ReadSmallFile(path, kMaxTemplateBytes));
  return Parse(source).in(path);
}

Result<ChatTemplate> ChatTemplate::Load(const std::string& folder) {
  const std::string file = JoinPath(folder, "chat_template.jinja");
  NXDKIT_ASSIGN(const bool has_file, IsThere(file));
  if (has_file) return Open(file);
  const std::string config = JoinPath(folder, "tokenizer_config.json");
  NXDKIT_ASSIGN(const std::string source, SourceFromConfig(config).in(config));
  return Parse(source).in(config).member("chat_template");
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         const ChatOptions& options) const {
  jinja::List list;
  for (const ChatMessage& message : messages)
    list.push_back(jinja::Dict{{"role", message.role}, {"content", message.content}});
  // transformers defines `tools` and `documents` as None if there are none.
  jinja::Dict variables{{"messages", std::move(list)},
                        {"tools", jinja::Value()},
                        {"documents", jinja::Value()},
                        {"add_generation_prompt", options.add_generation_prompt}};
  if (options.enable_thinking) variables.emplace_back("enable_thinking", *options.enable_thinking);
  if (!options.bos_token.empty()) variables.emplace_back("bos_token", options.bos_token);
  if (!options.eos_token.empty()) variables.emplace_back("eos_token", options.eos_token);
  return template_.Render(variables, options.now);
}

Result<PromptFormat> PromptFormat::Parse(std::string_view source) {
  NXDKIT_ASSIGN(jinja::Template parsed,
                jinja::Template::Parse(Strip(source), jinja::Spaces::kPlain));
  // Plain tojson sorts keys, and escapes <, >, & and ' for HTML.
  if (parsed.Mentions("tojson"))
    return Unsupported("tojson, which is not the one of chat templates in a format file");
  if (!parsed.Mentions("content")) return Corrupt("the template does not use {{{{ content }}}}");
  return PromptFormat(std::move(parsed));
}

Result<PromptFormat> PromptFormat::Open(const std::string& path) {
  NXDKIT_ASSIGN(const std::string source, ReadSmallFile(path, kMaxTemplateBytes));
  return Parse(source).in(path);
}

Result<std::string> PromptFormat::Render(std::string_view content) const {
  return template_.Render({{"content", std::string(content)}});
}

}  // namespace nxdkit::trainer
