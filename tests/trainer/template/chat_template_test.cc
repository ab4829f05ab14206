#include "trainer/template/chat_template.h"

#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

constexpr std::string_view kChatMl =
    "{%- for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n";

const std::vector<ChatMessage> kQuestion = {{"user", "1 + 1?"}};

TEST(ChatTemplate, RendersMessages) {
  const Result<ChatTemplate> chat = ChatTemplate::Parse(kChatMl);
  ASSERT_TRUE(chat.ok()) << chat.error().ToString();
  const std::string question = "<|im_start|>user\n1 + 1?<|im_end|>\n";
  EXPECT_EQ(*chat->Render(kQuestion, {}), question + "<|im_start|>assistant\n");
  EXPECT_EQ(*chat->Render(kQuestion, {.enable_thinking = true}),
            question + "<|im_start|>assistant\n");
  EXPECT_EQ(*chat->Render(kQuestion, {.enable_thinking = false}),
            question + "<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(*chat->Render(kQuestion, {.add_generation_prompt = false}), question);
  EXPECT_EQ(chat->source(), kChatMl);
}

TEST(ChatTemplate, HasTheVariablesOfTransformers) {
  const auto chat = ChatTemplate::Parse("{{ bos_token is defined }}{{ eos_token }}{{ tools }}");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(*chat->Render(kQuestion, {}), "FalseNone");
  EXPECT_EQ(*chat->Render(kQuestion, {.bos_token = "<s>", .eos_token = "</s>"}), "True</s>None");
}

TEST(ChatTemplate, IsFoundInAFolder) {
  const TempFolder folder;
  ExpectError(ChatTemplate::Load(folder.path()), Errc::kNotFound, "chat_template.jinja exists");
  WriteText(folder / "tokenizer_config.json", R"({"chat_template": null})");
  ExpectError(ChatTemplate::Load(folder.path()), Errc::kNotFound, "no chat_template here");
  WriteText(folder / "tokenizer_config.json",
            R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  ExpectError(ChatTemplate::Load(folder.path()), Errc::kNotFound,
              "no template is named 'default'; there are: 'rag'");
  WriteText(folder / "tokenizer_config.json",
            R"({"chat_template": [{"name": "rag", "template": "r"},
                            {"name": "default", "template": "d"}]})");
  EXPECT_EQ(ChatTemplate::Load(folder.path())->source(), "d");
  WriteText(folder / "tokenizer_config.json", R"({"chat_template": "text"})");
  EXPECT_EQ(ChatTemplate::Load(folder.path())->source(), "text");
  WriteText(folder / "chat_template.jinja", "file");
  EXPECT_EQ(ChatTemplate::Load(folder.path())->source(), "file");
}

TEST(ChatTemplate, NamesTheFileOfAFault) {
  const TempFolder folder;
  WriteText(folder / "tokenizer_config.json", R"({"chat_template": "{% include 'x' %}"})");
  auto error = ExpectError(ChatTemplate::Load(folder.path()), Errc::kUnsupported, "'include'");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder / "tokenizer_config.json");
  EXPECT_EQ(error->member(), "chat_template");

  WriteText(folder / "mine.jinja", "\n{{");
  error = ExpectError(ChatTemplate::Open(folder / "mine.jinja"), Errc::kCorrupt, "line 2 column 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder / "mine.jinja");
  ExpectError(ChatTemplate::Open(folder / "none.jinja"), Errc::kNotFound, "");
}

TEST(PromptFormat, PutsTextAroundAPrompt) {
  EXPECT_EQ(*PromptFormat::Parse("\n {{ content | trim }} Think first.\n\n")->Render("  1+1? \n"),
            "1+1? Think first.");
  // A backslash followed by "n" stays so, as in the reference.
  EXPECT_EQ(*PromptFormat::Parse("a\\n\\n{{content}}\\n\\nb")->Render("{{ x }}"),
            "a\\n\\n{{ x }}\\n\\nb");
  // The result of jinja2.Template(text.strip()): blocks and comments keep the white space around
  // them.
  const std::pair<const char*, const char*> plain[] = {
      {"{{ content }}\n{% if content %}\n  Think.\n{% endif %}\nEnd  {# c #}\n x",
       " 1+1 \n\n  Think.\n\nEnd  \n x"},
      {"  {% set a = 1 %}\n{{ content }}{{ a }}", "\n 1+1 1"},
      {"{%- if content -%}\n a {{ content }}\n{%- endif %}\n b", "a  1+1 \n b"}};
  for (const auto& [format, text] : plain)
    EXPECT_EQ(*PromptFormat::Parse(format)->Render(" 1+1 "), text) << format;
  ExpectError(PromptFormat::Parse("{{ content | tojson }}"), Errc::kUnsupported, "tojson");
  ExpectError(PromptFormat::Parse("no text"), Errc::kCorrupt, "does not use {{ content }}");
}

}  // namespace
}  // namespace nxdkit::trainer
