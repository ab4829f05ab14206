#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

// The names of the files in an entry are checked by the tests that the page names.
TEST(FormatPage, OfTheCompileCacheIsTrue) {
  testing_util::ExpectNamesTests(testing_util::PageOf("compile_cache"),
                                 {"tests/formats/compile_cache", "tests/tools"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
