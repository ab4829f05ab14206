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
