// Rules of the house that a compiler does not check.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

std::string Place(const SourceFile& file, size_t line_index) {
  return file.path + ":" + std::to_string(line_index + 1);
}

// A file of rules may not break them by naming them, so the words are put together here.
std::string Word(std::string_view a, std::string_view b) { return std::string(a).append(b); }

bool IsPrivate(const SourceFile& file) {
  for (const std::string_view line : file.lines) {
    if (!line.starts_with("//")) return false;
    if (line.find("PRIVATE") != std::string_view::npos) return true;
  }
  return false;
}

TEST(Headers, BeginWithACommentAndPragmaOnce) {
  const std::vector<const SourceFile*> headers = FilesIn("", {".h"});
  EXPECT_GT(headers.size(), 5u) << "the tree was not found";
  for (const SourceFile* file : headers) {
    if (file->path == "tools/library/nxdkit.h") continue;  // it is C, of 1999
    ASSERT_FALSE(file->lines.empty()) << file->path;
    EXPECT_TRUE(file->lines[0].starts_with("// ")) << file->path << " has no opening comment";
    const auto code = std::ranges::find_if(
        file->lines, [](std::string_view line) { return !line.starts_with("//"); });
    ASSERT_NE(code, file->lines.end()) << file->path;
    EXPECT_EQ(*code, "#pragma once") << file->path << ": the first line after the comment";
  }
}

TEST(Headers, HeavyIncludesStandOnlyInPrivateOnes) {
  const std::vector<std::string_view> heavy = {"nlohmann/", "fmt/", "iostream>", "regex>", "CLI/"};
  for (const SourceFile* file : FilesIn("", {".h"})) {
    if (IsPrivate(*file)) continue;
    for (size_t i = 0; i < file->lines.size(); ++i)
      for (const std::string_view name : heavy)
        EXPECT_FALSE(file->lines[i].starts_with("#include <" + std::string(name)))
            << Place(*file, i) << ": " << file->lines[i] << " in a header that is not PRIVATE";
  }
}

TEST(Headers, PrivateOnesAreIncludedOnlyByPrivateOnes) {
  for (const SourceFile* file : FilesIn("", {".h"})) {
    if (IsPrivate(*file)) continue;
    for (const Include& include : QuotedIncludes(*file)) {
      const SourceFile* target = Find(include.path);
      if (target == nullptr) continue;  // see Arrows.IncludesAreWrittenFromTheRoot
      EXPECT_FALSE(IsPrivate(*target))
          << file->path << ":" << include.line << " includes " << include.path;
    }
  }
}

TEST(Sources, AvoidWhatTheOlderCompilersLack) {
  const std::vector<std::string> words = {Word("std::", "views"), Word("std::ranges::", "views"),
                                          Word("source_", "location"), Word("std::", "format("),
                                          Word("#include <", "format>")};
  for (const SourceFile* file : FilesIn("", {".h", ".cc"}))
    for (size_t i = 0; i < file->lines.size(); ++i)
      for (const std::string& word : words)
        EXPECT_EQ(file->lines[i].find(word), std::string_view::npos)
            << Place(*file, i) << ": " << word;
}

// Only lib/system/look.h asks, because it distinguishes a missing path from one that cannot be
// inspected.
TEST(Sources, AskInOneWayWhatIsAtAPath) {
  const std::vector<std::string> words = {
      "::stat(",     "::lstat(",         "::statx(",      "::fstatat(",         "::access(",
      "::opendir(",  "::readdir(",       "::realpath(",   "::readlink(",        "::exists(",
      "fs::status(", "is_regular_file(", "is_directory(", "is_symlink(",        "symlink_status(",
      "file_size(",  "last_write_time(", "read_symlink(", "directory_iterator", "canonical(",
      "equivalent(", "::is_empty("};
  const std::set<std::string> exceptions = {
      "lib/system/places.cc",         // access: whether files may be made in the folder
      "trainer/loop/run_folder.cc",   // the same
      "trainer/base/core_share.cc"};  // files of /proc
  for (const char* folder : {"lib/", "formats/", "trainer/", "tools/"})
    for (const SourceFile* file : FilesIn(folder, {".h", ".cc"}))
      for (size_t i = 0; i < file->lines.size(); ++i)
        for (const std::string& word : words)
          EXPECT_TRUE(file->path.starts_with("lib/system/") || exceptions.contains(file->path) ||
                      file->lines[i].find(word) == std::string_view::npos)
              << Place(*file, i) << ": " << word << ", expected a function of lib/system/look.h";
}

TEST(Sources, AreAsciiWithoutTabs) {
  for (const SourceFile* file : FilesIn("", {".h", ".cc", ".sh", ".py"}))
    for (size_t i = 0; i < file->lines.size(); ++i)
      EXPECT_TRUE(std::ranges::all_of(
          file->lines[i], [](char c) { return static_cast<unsigned char>(c) < 0x80 && c != '\t'; }))
          << Place(*file, i) << ": a tab, or a byte that is not ASCII";
}

// The name of a line `using NAME = ...` that begins it, or "".
std::string AliasOf(std::string_view line) {
  constexpr std::string_view kUsing = "using ";
  const size_t equals = line.find(" = ");
  if (!line.starts_with(kUsing) || equals == std::string_view::npos) return "";
  return std::string(line.substr(kUsing.size(), equals - kUsing.size()));
}

// In unity builds a header can come after another file's code: an alias there that hides one of
// lib's would silently change the types in the functions of that header.
TEST(Sources, GiveNoOtherMeaningToTheAliasesOfLib) {
  std::set<std::string> names;
  for (const SourceFile* file : FilesIn("lib/", {".h"}))
    for (const std::string_view line : file->lines) names.insert(AliasOf(line));
  names.erase("");
  EXPECT_TRUE(names.contains("Json"));
  for (const SourceFile* file : FilesIn("", {".cc"}))
    for (size_t i = 0; i < file->lines.size(); ++i)
      EXPECT_FALSE(names.contains(AliasOf(file->lines[i])))
          << Place(*file, i) << ": " << file->lines[i];
}

// clang-format fixes it.
TEST(Sources, HaveAtMostHundredColumns) {
  for (const SourceFile* file : FilesIn("", {".h", ".cc"}))
    for (size_t i = 0; i < file->lines.size(); ++i)
      EXPECT_LE(file->lines[i].size(), 100u) << Place(*file, i);
}

// A home folder or a mount point in a committed file is somebody's machine.
TEST(Sources, NameNoParticularMachine) {
  const std::vector<std::string> roots = {Word("/ho", "me/"), Word("/ro", "ot/"),
                                          Word("/Us", "ers/"), Word("/wo", "rk/")};
  for (const SourceFile& file : Tree())
    for (size_t i = 0; i < file.lines.size(); ++i)
      for (const std::string& root : roots) {
        const size_t at = file.lines[i].find(root);
        if (at == std::string_view::npos) continue;
        // "tests/home/x" is a path of ours; "/home/x" is not.
        const bool inside =
            at > 0 && (std::isalnum(file.lines[i][at - 1]) != 0 || file.lines[i][at - 1] == '.' ||
                       file.lines[i][at - 1] == '}');
        EXPECT_TRUE(inside) << Place(file, i) << ": " << file.lines[i];
      }
}

TEST(Formats, EachReaderHasItsFormatPage) {
  // The folders that cover all formats.
  const std::set<std::string> about_all = {
      "formats/models",  "formats/hardware", "formats/artifact", "formats/training",
      "formats/adapter", "formats/kinds",    "formats/ops"};
  std::set<std::string> folders;
  for (const SourceFile* file : FilesIn("formats/", {".cc"})) {
    const std::string folder = file->path.substr(0, file->path.find('/', 8));
    if (!about_all.contains(folder)) folders.insert(folder);
  }
  for (const std::string& folder : folders)
    EXPECT_NE(Find(folder + "/FORMAT.md"), nullptr) << folder << "/FORMAT.md is missing";
}

bool HasAny(const SourceFile& file, const std::vector<std::string>& words) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return file.text.find(word) != std::string::npos; });
}

std::vector<const SourceFile*> TestFiles() { return FilesIn("tests/", {"_test.cc"}); }

TEST(Tests, EachFileAsserts) {
  const std::vector<std::string> tests = {"TEST(", "TEST_F(", "TEST_P(", "TYPED_TEST(",
                                          "RC_GTEST_PROP("};
  const std::vector<std::string> assertions = {"EXPECT_", "ASSERT_", "RC_ASSERT", "ADD_FAILURE",
                                               "FAIL("};
  EXPECT_GT(TestFiles().size(), 3u) << "the tree was not found";
  for (const SourceFile* file : TestFiles()) {
    EXPECT_TRUE(HasAny(*file, tests)) << file->path << " holds no test";
    EXPECT_TRUE(HasAny(*file, assertions)) << file->path << " asserts nothing";
  }
}

// A test file in a folder without a test binary would never run. A binary is made from a folder and
// everything below it.
TEST(Tests, EachFileIsBuilt) {
  const SourceFile* cmake = Find("tests/CMakeLists.txt");
  ASSERT_NE(cmake, nullptr);
  std::set<std::string> words;
  std::string word;
  for (const char c : cmake->text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '_';
    if (part) word += c;
    if (!part) words.insert(std::exchange(word, ""));
  }
  for (const SourceFile* file : TestFiles()) {
    bool listed = false;
    std::string folder = file->path.substr(6);
    while (!listed && folder.find('/') != std::string::npos) {
      folder = folder.substr(0, folder.rfind('/'));
      listed = words.contains(folder);
    }
    EXPECT_TRUE(listed) << file->path << " is in no folder of tests/CMakeLists.txt";
  }
}

TEST(Tests, NoneIsSwitchedOffInSilence) {
  const std::string disabled = Word("DISAB", "LED_");
  const std::string skip = Word("GTEST_", "SKIP()");
  for (const SourceFile* file : FilesIn("tests/", {".cc", ".h"}))
    for (size_t i = 0; i < file->lines.size(); ++i) {
      const std::string_view line = file->lines[i];
      EXPECT_EQ(line.find(disabled), std::string_view::npos) << Place(*file, i);
      if (line.find(skip) == std::string_view::npos) continue;
      EXPECT_NE(line.find("<<"), std::string_view::npos)
          << Place(*file, i) << ": a skip carries its reason";
    }
}

}  // namespace
}  // namespace nxdkit::test
