// man/nxdkit-errors.7 compared with lib/base/error.h, the output of the commands, and the messages
// in the sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "lib/base/error.h"
#include "lib/json/json.h"
#include "tests/tools/man_page.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Page() { return ReadFile(NXDKIT_SOURCE_DIR "/man/nxdkit-errors.7"); }

// kLost is the last one.
std::vector<Errc> Codes() {
  std::vector<Errc> codes;
  for (int i = 0; i <= static_cast<int>(Errc::kLost); ++i) codes.push_back(static_cast<Errc>(i));
  return codes;
}

// From a heading `.Ss word` to the next heading.
std::string SectionOf(const std::string& page, const std::string& heading) {
  const size_t begin = page.find("\n" + heading + "\n");
  if (begin == std::string::npos) return "";
  const size_t end = page.find("\n.S", begin + 2);
  return page.substr(begin, end - begin);
}

TEST(ErrorsPage, HasEveryCodeWithItsExitStatus) {
  const std::string page = Page();
  const std::string statuses = SectionOf(page, ".Sh EXIT STATUS");
  for (const Errc code : Codes()) {
    const std::string word(ErrcName(code));
    const std::string status = std::to_string(ExitCode(code));
    EXPECT_THAT(statuses, HasSubstr("\n.It " + status + "\n")) << word;
    EXPECT_THAT(statuses, HasSubstr(".Ql " + word)) << word;
    EXPECT_THAT(SectionOf(page, ".Ss " + word), HasSubstr("\nExit status " + status)) << word;
  }
  EXPECT_THAT(statuses, HasSubstr("\n.It 0\n"));
  EXPECT_THAT(statuses, HasSubstr("\n.It 143\n"));
}

TEST(ErrorsPage, DescribesTheErrorObject) {
  const Names documented = ManJsonPaths(Page());
  const TempFolder folder;
  const std::string bad =
      folder.Write("bad.safetensors", std::string("\x07\0\0\0\0\0\0\0{\"a\":{}", 15));
  std::set<std::string> seen;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"ckpt-inspect", bad},
                                                  {"ckpt-inspect", "--no-such-option"},
                                                  {"ckpt-verify", folder.path() + "/nothing"}}) {
    std::vector<std::string> words = command;
    words[0] = NXDKIT_TOOLS "/" + words[0];
    words.push_back("--json");
    const Result<Json> json = ParseJson(RunProcess(words).out);
    ASSERT_TRUE(json.ok()) << command[0];
    ASSERT_TRUE(json->contains("error")) << *json;
    for (const auto& [key, value] : (*json)["error"].items()) {
      EXPECT_TRUE(documented.contains("error." + key)) << key;
      seen.insert(key);
    }
  }
  EXPECT_TRUE(seen.contains("code") && seen.contains("message") && seen.contains("hint"));
}

// Replaces the builders of lib/base/errors.h by their codes.
std::string WithCodes(std::string source) {
  static const std::pair<std::regex, const char*> kBuilders[] = {
      {std::regex("\\bCorrupt\\("), "Errc::kCorrupt, "},
      {std::regex("\\bUnsupported\\("), "Errc::kUnsupported, "},
      {std::regex("\\bNotFound\\("), "Errc::kNotFound, "},
      {std::regex("\\bBadUsage\\("), "Errc::kUsage, "},
      {std::regex("\\bOverLimit\\("), "Errc::kLimit, "}};
  for (const auto& [builder, code] : kBuilders) source = std::regex_replace(source, builder, code);
  return source;
}

// All sources, each with adjacent literals joined.
std::vector<std::string> Sources() {
  static const std::regex seam("\"\\s*\n\\s*\"");
  std::vector<std::string> sources;
  for (const char* folder : {"lib", "formats", "tools", "trainer/comm"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::string(NXDKIT_SOURCE_DIR) + "/" + folder))
      if (entry.path().extension() == ".cc")
        sources.push_back(WithCodes(std::regex_replace(ReadFile(entry.path()), seam, "")));
  return sources;
}

// kNotFound -> "not_found", by the enumerator as it is written.
std::string EnumeratorOf(const std::string& word) {
  std::string name = "k";
  bool upper = true;
  for (const char c : word) {
    if (c != '_') name += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '_';
  }
  return name;
}

// The nearest code before the message; a message without one is wrapped elsewhere in the file.
bool MakesWithCode(const std::string& source, size_t at, const std::string& word) {
  constexpr size_t kNear = 400;
  const std::string code = "Errc::" + EnumeratorOf(word);
  const size_t nearest = source.rfind("Errc::k", at);
  if (nearest == std::string::npos || at - nearest > kNear)
    return source.find(code) != std::string::npos || word == "usage";
  return source.compare(nearest, code.size(), code) == 0;
}

TEST(ErrorsPage, QuotesMessagesThatTheSourcesHave) {
  const std::string page = Page();
  const std::vector<std::string> sources = Sources();
  size_t messages = 0;
  for (const Errc code : Codes()) {
    const std::string word(ErrcName(code));
    const std::string section = SectionOf(page, ".Ss " + word);
    for (size_t at = section.find(".It Qq "); at != std::string::npos;
         at = section.find(".It Qq ", at + 1)) {
      std::string message = section.substr(at + 7, section.find('\n', at) - at - 7);
      for (size_t dots = message.find("..."); dots != std::string::npos; dots = message.find("..."))
        message.replace(dots, 3, "{}");
      ++messages;
      const bool found = std::ranges::any_of(sources, [&](const std::string& source) {
        const size_t place = source.find(message);
        return place != std::string::npos && MakesWithCode(source, place, word);
      });
      EXPECT_TRUE(found) << word << ": no message of this kind has: " << message;
    }
  }
  EXPECT_GE(messages, 25U);
}

// Each command stands under a message of another program, and its options are ones that it has.
TEST(ErrorsPage, GivesCommandsForMessagesOfOtherPrograms) {
  const std::string page = Page();
  const size_t begin = page.find("\n.Sh MESSAGES OF OTHER PROGRAMS\n");
  ASSERT_NE(begin, std::string::npos);
  std::istringstream lines(page.substr(begin, page.find("\n.Sh SEE ALSO\n") - begin));
  std::string path = NXDKIT_TOOLS;
  if (const char* inherited = std::getenv("PATH")) path += std::string(":") + inherited;
  size_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(".Dl ")) continue;
    std::string command = line.substr(4);
    command.insert(std::min(command.find(" -- "), command.size()), " --help");
    const ProcessResult result = RunProcess({"bash", "-c", command}, {"PATH=" + path});
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    ++commands;
  }
  EXPECT_GE(commands, 20u);
}

TEST(ErrorsPage, IsNamedByEveryOther) {
  for (const auto& entry : std::filesystem::directory_iterator(NXDKIT_SOURCE_DIR "/man"))
    if (entry.path().extension() == ".1") {
      EXPECT_THAT(ReadFile(entry.path()), HasSubstr("\n.Xr nxdkit-errors 7\n")) << entry.path();
    }
}

}  // namespace
}  // namespace nxdkit::test
