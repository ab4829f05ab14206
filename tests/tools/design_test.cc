// DESIGN.md: its commands, typed into one shell, print what the page shows, and the functions that
// it names are in the files that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/tools/process.h"
#include "tests/tools/typed_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

std::string DesignText() { return ReadFile(NXDKIT_SOURCE_DIR "/DESIGN.md"); }

TEST(DesignPage, CommandsPrintWhatItShows) {
  const TempFolder folder;
  const TypedWalk walk = WalkOf(SectionOf(DesignText(), "One tensor"));
  ASSERT_GE(walk.typed.size(), 7u);
  const std::string mark = "\001\n";
  std::string script =
      "cd " + folder.path() + "\nexec 2>&1\nexport LC_ALL=C.UTF-8\nPATH=" NXDKIT_TOOLS ":$PATH\n";
  for (const Typed& typed : walk.typed) script += typed.command + "\nprintf '\\001\\n'\n";
  const ProcessResult result = RunProcess({"bash", "-c", script});
  size_t at = 0;
  for (const Typed& typed : walk.typed) {
    const size_t end = result.out.find(mark, at);
    ASSERT_NE(end, std::string::npos) << typed.command;
    EXPECT_EQ(Steady(result.out.substr(at, end - at)), Steady(typed.output)) << typed.command;
    at = end + mark.size();
  }
}

// Every row of a table whose last column names files: a function of the row is in one of them.
TEST(DesignPage, RoadsNameFunctionsThatAreThere) {
  static const std::regex kFile("`((?:lib|formats|trainer)/[a-z_/]+\\.(?:cc|h))`");
  static const std::regex kCode("`([A-Za-z]+(?:::[A-Za-z]+)?)`");
  size_t rows = 0;
  std::istringstream lines(DesignText());
  for (std::string line; std::getline(lines, line);) {
    std::smatch file;
    if (!line.starts_with("|") || !std::regex_search(line, file, kFile)) continue;
    const std::string path = NXDKIT_SOURCE_DIR "/" + file[1].str();
    ASSERT_TRUE(fs::exists(path)) << line;
    std::smatch code;
    ASSERT_TRUE(std::regex_search(line, code, kCode)) << line;
    std::string name = code[1];
    if (const size_t colons = name.find("::"); colons != std::string::npos)
      name.erase(0, colons + 2);
    EXPECT_NE(ReadFile(path).find(name + "("), std::string::npos) << path << " has no " << name;
    ++rows;
  }
  EXPECT_GE(rows, 12u);
}

}  // namespace
}  // namespace nxdkit::test
