// The words of comments, messages and papers: turns of phrase that stop an English reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

// Whether the line is a comment that begins with a genitive, or with a clause in place of a noun.
bool BeginsWithoutItsNoun(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with("//")) return false;
  line.remove_prefix(std::min(line.find_first_not_of("/ "), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  return word == "Of" || word == "What";
}

// The text with blanks in place of code and literals.
std::string CommentsOf(std::string_view text) {
  std::string comments(text);
  bool literal = false;
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      literal = comment = false;
      continue;
    }
    if (comment) continue;
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') {
      comments[i++] = ' ';
    } else if (text[i] == '"' && text.substr(i - std::min<size_t>(i, 1), 3) != "'\"'") {
      literal = !literal;
    } else if (!literal && text.substr(i, 2) == "//") {
      comment = true;
      continue;
    }
    comments[i] = ' ';
  }
  return comments;
}

struct WordAt {
  std::string_view word;
  size_t begin = 0;
  size_t end = 0;
};

bool IsWord(const WordAt& at, std::string_view lower_case) {
  return std::ranges::equal(at.word, lower_case, {},
                            [](char c) { return std::tolower(static_cast<unsigned char>(c)); });
}

std::vector<WordAt> WordsOf(std::string_view text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'';
  };
  std::vector<WordAt> words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_part(text[i])) continue;
    const size_t begin = i;
    while (i < text.size() && is_part(text[i])) ++i;
    words.push_back({text.substr(begin, i - begin), begin, i});
  }
  return words;
}

// Whether nothing separates the two but blanks and the marks of comments and literals.
bool FollowEachOther(std::string_view text, const WordAt& a, const WordAt& b) {
  return text.substr(a.end, b.begin - a.end).find_first_not_of(" \n/\"") == std::string_view::npos;
}

// The places where these two words follow each other.
std::vector<size_t> PlacesOf(std::string_view text, std::string_view first, std::string_view second,
                             std::string_view allowed_after = "") {
  const std::vector<WordAt> words = WordsOf(text);
  std::vector<size_t> places;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (!IsWord(words[i], first) || !IsWord(words[i + 1], second)) continue;
    if (!FollowEachOther(text, words[i], words[i + 1])) continue;
    const bool is_allowed = i > 0 && IsWord(words[i - 1], allowed_after) &&
                            FollowEachOther(text, words[i - 1], words[i]);
    if (!is_allowed) places.push_back(words[i].begin);
  }
  return places;
}

// The places of "is no", except after "there", before "longer", and where "no" is an answer: "it is
// no: x".
std::vector<size_t> IsNoPlaces(std::string_view text) {
  std::vector<size_t> places = PlacesOf(text, "is", "no", "there");
  std::erase_if(places, [&](size_t at) {
    const size_t no = text.find_first_of("nN", at + 2);
    if (no + 2 >= text.size() || (text[no + 2] != ' ' && text[no + 2] != '\n')) return true;
    const size_t next = text.find_first_not_of(" \n/\"", no + 2);
    return next != std::string_view::npos && text.substr(next).starts_with("longer");
  });
  return places;
}

std::vector<size_t> LiesOnPlaces(std::string_view text) { return PlacesOf(text, "lies", "on"); }

struct Prose {
  const SourceFile* file;
  std::string text;  // line by line the file's
};

// Comments of all code, literals of the product, man pages and Markdown.
const std::vector<Prose>& AllProse() {
  static const std::vector<Prose> kProse = [] {
    std::vector<Prose> all;
    const auto is_of_product = [](const SourceFile& file) {
      return std::ranges::any_of(
          std::vector<std::string_view>{"lib/", "formats/", "tools/", "trainer/"},
          [&](std::string_view folder) { return file.path.starts_with(folder); });
    };
    for (const SourceFile* file : FilesIn("", {".cc", ".h"}))
      all.push_back({file, is_of_product(*file) ? file->text : CommentsOf(file->text)});
    for (const SourceFile* file : FilesIn("man/", {""})) all.push_back({file, file->text});
    for (const SourceFile* file : FilesIn("", {".md"}))
      if (!file->path.starts_with("testdata/")) all.push_back({file, file->text});
    return all;
  }();
  return kProse;
}

using Matcher = std::vector<size_t> (*)(std::string_view text);

void ExpectNowhere(Matcher matcher, const std::string& advice) {
  EXPECT_GT(AllProse().size(), 1000u) << "the tree was not found";
  for (const Prose& prose : AllProse())
    for (const size_t at : matcher(prose.text)) {
      const auto line = static_cast<size_t>(
          std::count(prose.text.begin(), prose.text.begin() + static_cast<ptrdiff_t>(at), '\n'));
      ADD_FAILURE() << prose.file->path << ":" << line + 1 << ": " << advice << ": "
                    << prose.file->lines[line];
    }
}

TEST(Words, CommentsBeginWithTheirNoun) {
  for (const SourceFile* file : FilesIn("", {".cc", ".h"}))
    for (size_t i = 0; i < file->lines.size(); ++i)
      EXPECT_FALSE(BeginsWithoutItsNoun(file->lines[i]))
          << file->path << ":" << i + 1 << ": a line of a comment begins so: " << file->lines[i];
}

TEST(Words, IsNoComesOnlyAfterThere) { ExpectNowhere(IsNoPlaces, "write \"is not\""); }

TEST(Words, NothingLiesOnAnything) { ExpectNowhere(LiesOnPlaces, "write \"is on\""); }

// --- the matchers

TEST(WordMatchers, FindCommentsWithoutTheirNoun) {
  for (const char* line : {"// Of a tag: its dtype", "  // What a rank holds", "/// Of it",
                           "//Of it", "    //   What it prints", "// Of"})
    EXPECT_TRUE(BeginsWithoutItsNoun(line)) << line;
  for (const char* line : {"// The dtype of a tag", "// Often", "// What's new", "// of a tag",
                           "int i;  // Of a tag", "What(\"// Of a tag\");", "//", "", "  "})
    EXPECT_FALSE(BeginsWithoutItsNoun(line)) << line;
}

TEST(WordMatchers, FindIsNoThatDoesNotFollowThere) {
  for (const char* text :
       {"// A zip is no archive.", "Is no archive", "is no\n// archive", "what is\n  // no archive",
        "\"it is \"\n    \"no archive\"", "there, it is no archive", "It IS NO archive",
        "nowhere is no one", "there it is no archive"})
    EXPECT_EQ(IsNoPlaces(text).size(), 1u) << text;
  for (const char* text :
       {"there is no archive", "// There is no archive", "// where there\n// is no archive",
        "\"there \"\n  \"is no archive\"", "it is not an archive", "this no archive", "is none",
        "the answer is no: they differ", "the answer is \"no\" then", "it is. No archive",
        "it is nowhere", "basis no", "is_no x", "it is no longer there", ""})
    EXPECT_TRUE(IsNoPlaces(text).empty()) << text;
}

TEST(WordMatchers, FindThingsThatLieOn) {
  for (const char* text : {"it lies on a disk", "what Lies\n// on it", "where it lies on."})
    EXPECT_EQ(LiesOnPlaces(text).size(), 1u) << text;
  for (const char* text : {"it is on a disk", "it lies", "it lies, on the whole", "relies on it"})
    EXPECT_TRUE(LiesOnPlaces(text).empty()) << text;
}

TEST(WordMatchers, TellCommentsFromCodeAndLiterals) {
  for (const auto& [code, comments] : std::vector<std::pair<std::string, std::string>>{
           {"int i;  // a", "        // a"},
           {"f(\"// a\");\n// b", "          \n// b"},
           {"f(\"\\\"// a\");  // b", "              // b"},
           {"c == '\"' ? 1 : 2;  // a", "                   // a"},
           {"f(\"it's\");  // a", "            // a"},
           {"// \"a\n// b\"", "// \"a\n// b\""}})
    EXPECT_EQ(CommentsOf(code), comments) << code;
}

}  // namespace
}  // namespace nxdkit::test
