// The headers that are installed (cmake/PublicHeaders.cmake): they are there, none is PRIVATE, and
// they need no other header of ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

std::vector<std::string> PublicHeaders() {
  std::vector<std::string> headers;
  const SourceFile* list = Find("cmake/PublicHeaders.cmake");
  if (list == nullptr) return headers;
  for (const std::string_view line : list->lines)
    if (line.starts_with("  ")) headers.emplace_back(line.substr(2));
  return headers;
}

TEST(PublicHeaders, IncludeOnlyEachOther) {
  const std::vector<std::string> headers = PublicHeaders();
  EXPECT_GE(headers.size(), 20u) << "the list was not found";
  for (const std::string& path : headers) {
    const SourceFile* header = Find(path);
    ASSERT_NE(header, nullptr) << path << " is not there";
    EXPECT_EQ(header->text.find("PRIVATE"), std::string::npos) << path;
    for (const Include& include : QuotedIncludes(*header))
      EXPECT_NE(std::ranges::find(headers, include.path), headers.end())
          << path << ":" << include.line << " includes " << include.path
          << ", which cmake/PublicHeaders.cmake does not install";
  }
}

}  // namespace
}  // namespace nxdkit::test
