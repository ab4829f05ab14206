#include "lib/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/page/html.h"

namespace nxdkit::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Escape, KeepsLinesAndShowsControls) {
  EXPECT_EQ(Escape("a<b>&\"'\n\tc\x07"), "a&lt;b&gt;&amp;&quot;&#39;\n\tc\\x07");
}

TEST(Page, RunsItsOwnScriptsAlone) {
  Page plain("a & b");
  EXPECT_THAT(plain.Text(), HasSubstr("<h1>a &amp; b</h1>"));
  EXPECT_THAT(plain.Text(), Not(HasSubstr("script")));
  EXPECT_THAT(plain.Text(), HasSubstr("default-src 'none'"));
  plain.Use(Script::kHeat);
  EXPECT_THAT(plain.Text(), HasSubstr("script-src 'sha256-"));
}

// Readers of the screen jump to it.
TEST(Page, ItsPartsAreItsMainPart) {
  Page page("p");
  page.Heading("h");
  page.AddData("tree", "[]");
  EXPECT_THAT(page.Text(), HasSubstr("<body>\n<main>\n<h1>p</h1>\n<h2>h</h2>\n</main>\n<script "));
}

TEST(Table, CellsHaveHeadings) {
  EXPECT_EQ(Table({"a<", "b"}, {{"1", "2"}}),
            "<table class=\"data\">\n"
            "<tr><th scope=\"col\">a&lt;</th><th scope=\"col\">b</th></tr>\n"
            "<tr><td>1</td><td>2</td></tr>\n</table>\n");
  EXPECT_EQ(TableOf({"", "<b>b</b>"}, {{"1", "2"}}),
            "<table class=\"data\">\n<tr><td></td><th scope=\"col\"><b>b</b></th></tr>\n"
            "<tr><th scope=\"row\">1</th><td>2</td></tr>\n</table>\n");
  EXPECT_EQ(Table({}, {{"1", "2"}}),
            "<table class=\"data\">\n<tr><th scope=\"row\">1</th><td>2</td></tr>\n</table>\n");
}

// Data cannot end the element that holds it.
TEST(Page, DataIsNoMarkup) {
  Page page("data");
  const std::string json = "[\"</script><script>alert(1)<!--\"]";
  page.AddData("tree", json);
  EXPECT_EQ(DataBytes(json), json.size() + 15);
  EXPECT_THAT(page.Text(), HasSubstr("[\"\\u003c/script>\\u003cscript>alert(1)\\u003c!--\"]"));
}

}  // namespace
}  // namespace nxdkit::page
