#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

TEST(FormatPage, OfNeffIsTrue) {
  testing_util::ExpectPageHolds("neff", {"tests/formats/neff", "tests/formats/compile_cache"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
