// The console blocks of README.md and tools/EXAMPLES.md, typed in an empty folder, print what the
// pages show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/process.h"
#include "tests/tools/typed_page.h"

namespace nxdkit::test {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Whether the lines are those that are shown, where "..." stands for any lines.
bool Shows(std::span<const std::string> shown, std::span<const std::string> lines) {
  if (shown.empty()) return lines.empty();
  if (shown[0] != "...") {
    return !lines.empty() && shown[0] == lines[0] && Shows(shown.subspan(1), lines.subspan(1));
  }
  for (size_t skipped = 0; skipped <= lines.size(); ++skipped)
    if (Shows(shown.subspan(1), lines.subspan(skipped))) return true;
  return false;
}

TEST(PagesShows, DotsStandForAnyLines) {
  const auto shows = [](const std::string& shown, const std::string& text) {
    return Shows(LinesOf(shown), LinesOf(text));
  };
  EXPECT_TRUE(shows("a\nb\n", "a\nb\n"));
  EXPECT_TRUE(shows("a\n...\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(shows("...\n", ""));
  EXPECT_FALSE(shows("a\n", "a\nb\n"));
  EXPECT_FALSE(shows("a\n...\nd\n", "a\nb\nc\n"));
}

// Every console block of the page, in one folder.
void TypePage(const std::string& path) {
  const TempFolder folder;
  std::vector<Typed> typed;
  for (const PageBlock& block : BlocksOf(ReadFile(NXDKIT_SOURCE_DIR + path)))
    if (block.kind == "console") AddTyped(block, typed);
  EXPECT_GE(typed.size(), 4u) << path;
  for (const Typed& each : typed) {
    const ProcessResult result =
        RunProcess({"bash", "-c", "cd " + folder.path() + " && exec 2>&1; " + each.command},
                   {"PATH=" NXDKIT_TOOLS ":/usr/bin:/bin", "LC_ALL=C.UTF-8"});
    EXPECT_TRUE(Shows(LinesOf(Steady(each.output)), LinesOf(Steady(result.out))))
        << path << ": $ " << each.command << "\nthe page shows:\n"
        << each.output << "it prints:\n"
        << result.out;
  }
}

TEST(Pages, ReadmeShowsWhatIsPrinted) { TypePage("/README.md"); }

TEST(Pages, ExamplesShowWhatIsPrinted) { TypePage("/tools/EXAMPLES.md"); }

}  // namespace
}  // namespace nxdkit::test
