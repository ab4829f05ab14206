// The pages in Markdown: their links lead to files and headings that are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

// The text between "](" and ")" of each link to a file or a heading.
std::vector<std::string_view> LinksOf(std::string_view text) {
  std::vector<std::string_view> links;
  for (size_t at = text.find("]("); at != std::string_view::npos; at = text.find("](", at + 2)) {
    const std::string_view link = text.substr(at + 2, text.find(')', at) - at - 2);
    if (link.find_first_of(" \n") == link.npos && link.find("://") == link.npos)
      links.push_back(link);
  }
  return links;
}

TEST(Pages, LinksLeadToWhatIsThere) {
  const fs::path root = NXDKIT_SOURCE_DIR;
  size_t links = 0;
  for (const SourceFile* page : FilesIn("", {".md"}))
    for (const std::string_view link : LinksOf(page->text)) {
      ++links;
      const size_t hash = std::min(link.find('#'), link.size());
      const std::string_view target = link.substr(0, hash);
      const std::string path =
          target.empty()
              ? page->path
              : (fs::path(page->path).parent_path() / target).lexically_normal().string();
      EXPECT_TRUE(fs::exists(root / path)) << page->path << ": " << link;
      const SourceFile* file = Find(path);
      if (hash == link.size() || file == nullptr) continue;
      EXPECT_TRUE(AnchorsOf(*file).contains(std::string(link.substr(hash + 1))))
          << page->path << ": " << link;
    }
  EXPECT_GE(links, 30u);
}

}  // namespace
}  // namespace nxdkit::test
