#include "trainer/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/text/pre_tokenizer.h"
#include "trainer/text/regex_syntax.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.error().ToString();
  if (!regex.ok()) return {};
  std::vector<Span> spans;
  const Status status = regex->FindAll(text, &spans);
  EXPECT_TRUE(status.ok()) << status.error().ToString();
  std::vector<std::string> found;
  for (const Span& span : spans) found.emplace_back(text.substr(span.begin, span.end - span.begin));
  return found;
}

TEST(Regex, MeansWhatOnigurumaMeans) {
  EXPECT_THAT(Matches("\\s", "a\u180e \u0085\x1c\u3000"), ElementsAre(" ", "\u0085", "\u3000"));
  EXPECT_THAT(Matches("\\w+", "a\u0301_\u0660\u00b2-"), ElementsAre("a\u0301_\u0660\u00b2"));
  EXPECT_THAT(Matches("[\\w]+", "a\u00b2b"), ElementsAre("a", "b"));
  EXPECT_THAT(Matches("(?i:'S)", "'s 'S '\u017f"), ElementsAre("'s", "'S", "'\u017f"));
  EXPECT_THAT(Matches("\\p{Han}+", "a\u4e00\u3001\u4e8c"), ElementsAre("\u4e00", "\u4e8c"))
      << "scripts, not script extensions";
  EXPECT_THAT(Matches("a.", "a\na\r"), ElementsAre("a\r"));
  EXPECT_THAT(Matches("\\x{4e00}|\\u4e8c|\\x41", "A\u4e00\u4e8c"),
              ElementsAre("A", "\u4e00", "\u4e8c"));
}

TEST(Regex, EmptyMatchesRightAfterAMatchDoNotCount) {
  EXPECT_THAT(Matches("x*", "axxb"), ElementsAre("", "xx", ""));
}

TEST(Regex, EscapesAnyText) {
  const std::string odd = "a.b*[c](d){2}^$|\\ \t\n#-\u00e9\"";
  EXPECT_THAT(Matches(EscapeRegex(odd), "x" + odd + "y"), ElementsAre(odd));
}

struct Refusal {
  const char* pattern;
  const char* message;
};

TEST(Regex, RefusesWhatItCannotTranslate) {
  const Refusal refusals[] = {
      {"^a", "a line anchor at character 1"},
      {"a\\b", "escape '\\b' at character 2"},
      {"\\1", "escape '\\1'"},
      {"(?m:a)", "group '(?m:' at character 1"},
      {"(?<n>a)", "group '(?<n'"},
      {"(*UTF)a", "begins with '*'"},
      {"a{1,2}+", "'+' after a count at character 7"},
      {"a{,2}", "'{' that does not begin a count"},
      {"[[:alpha:]]", "a class inside a class"},
      {"[a&&b]", "an intersection"},
      {"[]a]", "an empty character class"},
      {"[a", "a character class that does not end"},
      {"\\xff", "a number of a character"},
      {"\\p{Klingon}", "unknown property"},
      {"\\pL", "a property without braces"},
      {"[\\W]", "escape '\\W'"},
      {"(a", "missing closing parenthesis"},
      {"a\\", "escape '\\' at character 2"},
  };
  for (const Refusal& row : refusals) {
    const Result<Regex> regex = Regex::Compile(row.pattern);
    ASSERT_FALSE(regex.ok()) << row.pattern;
    EXPECT_EQ(regex.error().code(), Errc::kUnsupported) << row.pattern;
    EXPECT_THAT(regex.error().message(), HasSubstr(row.message)) << row.pattern;
  }
}

TEST(Regex, StopsAtItsLimit) {
  const Result<Regex> regex = Regex::Compile("(?:a+)+(?=b)");
  ASSERT_TRUE(regex.ok());
  std::vector<Span> spans;
  const Status status = regex->FindAll(std::string(60, 'a'), &spans);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kLimit);
  EXPECT_THAT(status.error().message(), HasSubstr("match limit exceeded"));
}

TEST(Regex, LongRunsStayLinear) {
  const std::string spaces(2'000'000, ' ');
  EXPECT_EQ(Matches("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces).size(), 1u);
}

std::vector<std::string> Cut(SplitBehavior behavior, bool invert) {
  const std::string_view text = "a--bc-";
  const std::vector<Span> matches{{1, 2}, {2, 3}, {5, 6}};
  std::vector<std::string> words;
  for (const Span& span : CutAt(matches, text.size(), behavior, invert))
    words.emplace_back(text.substr(span.begin, span.end - span.begin));
  return words;
}

TEST(CutAt, HasEveryBehavior) {
  EXPECT_THAT(Cut(SplitBehavior::kRemoved, false), ElementsAre("a", "bc"));
  EXPECT_THAT(Cut(SplitBehavior::kRemoved, true), ElementsAre("-", "-", "-"));
  EXPECT_THAT(Cut(SplitBehavior::kIsolated, false), ElementsAre("a", "-", "-", "bc", "-"));
  EXPECT_THAT(Cut(SplitBehavior::kMergedWithPrevious, false), ElementsAre("a-", "-", "bc-"));
  EXPECT_THAT(Cut(SplitBehavior::kMergedWithNext, false), ElementsAre("a", "-", "-bc", "-"));
  EXPECT_THAT(Cut(SplitBehavior::kContiguous, false), ElementsAre("a", "--", "bc", "-"));
}

}  // namespace
}  // namespace nxdkit::trainer
