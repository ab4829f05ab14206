#include "lib/system/paths.h"

#include <gtest/gtest.h>

namespace nxdkit {
namespace {

struct PathRow {
  const char* path;
  const char* parent;
  const char* base;
};

TEST(Paths, Table) {
  const PathRow rows[] = {{"a/b", "a", "b"},  {"a/b/", "a", "b"}, {"b", ".", "b"},
                          {"/a", "/", "a"},   {"/", "/", "/"},    {"///", "/", "/"},
                          {"a//b", "a", "b"}, {"", ".", ""},      {"/a/b//", "/a", "b"},
                          {"./x", ".", "x"},  {"..", ".", ".."}};
  for (const PathRow& row : rows) {
    EXPECT_EQ(ParentPath(row.path), row.parent) << row.path;
    EXPECT_EQ(BaseName(row.path), row.base) << row.path;
  }
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
}

}  // namespace
}  // namespace nxdkit
