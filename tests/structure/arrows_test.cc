// The arrows between the folders: tools -> formats -> lib; trainer -> formats, lib. A folder of
// formats/ does not include another, with the exceptions that stand in kArrows.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

// "lib", "formats/nxd", "tools": what a path belongs to.
std::string PartOf(std::string_view path) {
  const size_t first = path.find('/');
  if (first == std::string_view::npos) return "";
  const std::string_view top = path.substr(0, first);
  if (top != "formats") return std::string(top);
  const size_t second = path.find('/', first + 1);
  return std::string(second == std::string_view::npos ? top : path.substr(0, second));
}

struct Arrow {
  std::string_view from;
  std::string_view to;
};

// A name that ends in '/' stands for every part below it. A part may include itself.
constexpr Arrow kArrows[] = {
    {"formats/", "lib"},
    {"formats/", "formats/models"},      // what a parameter is, for every format
    {"formats/nxd", "formats/torch"},    // the shards of an NxD set are torch archives
    {"formats/tar", "formats/rollout"},  // one version of a bundle's weights is packed
    {"formats/ops", "formats/"},         // operations over all formats: convert, inspect, verify
    {"tools", "formats/"},
    {"tools", "lib"},
    {"trainer", "formats/"},
    {"trainer", "lib"},
    {"tools", "trainer"},  // grpo-train
    {"bench", "formats/"},
    {"bench", "trainer"},
    {"bench", "lib"},
    {"tests", "lib"},
    {"tests", "formats/"},
    {"tests", "tools"},
    {"tests", "trainer"},
};

bool Matches(std::string_view pattern, std::string_view part) {
  return pattern.ends_with('/') ? part.starts_with(pattern) : part == pattern;
}

bool IsAllowed(std::string_view from, std::string_view to) {
  if (from == to) return true;
  return std::ranges::any_of(kArrows, [&](const Arrow& arrow) {
    return Matches(arrow.from, from) && Matches(arrow.to, to);
  });
}

TEST(Arrows, EveryIncludeFollowsAnArrow) {
  size_t includes = 0;
  for (const SourceFile* file : FilesIn("", {".h", ".cc", ".cc.in"}))
    for (const Include& include : QuotedIncludes(*file)) {
      ++includes;
      EXPECT_TRUE(IsAllowed(PartOf(file->path), PartOf(include.path)))
          << file->path << ":" << include.line << " includes " << include.path;
    }
  EXPECT_GT(includes, 20u) << "the tree was not found";
}

TEST(Arrows, IncludesAreWrittenFromTheRoot) {
  const std::filesystem::path root = NXDKIT_SOURCE_DIR;
  for (const SourceFile* file : FilesIn("", {".h", ".cc"}))
    for (const Include& include : QuotedIncludes(*file))
      EXPECT_TRUE(std::filesystem::exists(root / include.path))
          << file->path << ":" << include.line << " includes " << include.path;
}

TEST(Arrows, TheTableForbidsWhatItShould) {
  EXPECT_FALSE(IsAllowed("lib", "formats/nxd"));
  EXPECT_FALSE(IsAllowed("lib", "tools"));
  EXPECT_FALSE(IsAllowed("formats/hf", "formats/safetensors"));
  EXPECT_FALSE(IsAllowed("formats/torch", "formats/nxd"));
  EXPECT_FALSE(IsAllowed("formats/models", "formats/ops"));
  EXPECT_FALSE(IsAllowed("formats/nxd", "tools"));
  EXPECT_FALSE(IsAllowed("trainer", "tools"));
  EXPECT_TRUE(IsAllowed("formats/nxd", "formats/torch"));
  EXPECT_TRUE(IsAllowed("formats/ops", "formats/rollout"));
}

TEST(Arrows, TopLevelFoldersAreFixed) {
  const std::set<std::string> fixed = {"bench", "build",    "cmake", "formats", "lib",
                                       "man",   "testdata", "tests", "tools",   "trainer"};
  for (const std::string& name : RootFolders())
    EXPECT_TRUE(fixed.contains(name)) << name << " is not one of the top level folders";
}

}  // namespace
}  // namespace nxdkit::test
