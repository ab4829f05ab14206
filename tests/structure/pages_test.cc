// The pages in Markdown: their links lead to files and headings that are there.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

// As GitHub makes it of a heading: "## What is promised" -> "what-is-promised".
std::string AnchorOf(std::string_view heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# "))) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_') anchor += static_cast<char>(tolower(byte));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

std::set<std::string> AnchorsOf(const SourceFile& page) {
  std::set<std::string> anchors;
  bool code = false;
  for (const std::string_view line : page.lines) {
    if (line.starts_with("```")) code = !code;
    if (!code && line.starts_with("#")) anchors.insert(AnchorOf(line));
  }
  return anchors;
}

TEST(Pages, LinksLeadToWhatIsThere) {
  static const std::regex kLink(R"(\]\(([^)#\s]*)(?:#([^)\s]*))?\))");
  const fs::path root = NXDKIT_SOURCE_DIR;
  size_t links = 0;
  for (const SourceFile* page : FilesIn("", {".md"}))
    for (std::sregex_iterator at(page->text.begin(), page->text.end(), kLink), end; at != end;
         ++at) {
      const std::string target = (*at)[1], anchor = (*at)[2];
      if (target.find("://") != std::string::npos) continue;
      ++links;
      const fs::path path = target.empty()
                                ? fs::path(page->path)
                                : (fs::path(page->path).parent_path() / target).lexically_normal();
      EXPECT_TRUE(fs::exists(root / path)) << page->path << ": " << at->str();
      const SourceFile* file = Find(path.string());
      if (anchor.empty() || file == nullptr) continue;
      EXPECT_TRUE(AnchorsOf(*file).contains(anchor)) << page->path << ": " << at->str();
    }
  EXPECT_GE(links, 30u);
}

}  // namespace
}  // namespace nxdkit::test
