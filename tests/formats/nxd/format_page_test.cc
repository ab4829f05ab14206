#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

TEST(FormatPage, OfNxdIsTrue) {
  testing_util::ExpectPageHolds(
      "nxd", {"tests/formats/nxd", "tests/formats/models", "tests/formats/ops",
              "tests/formats/kinds", "tests/formats/reshard", "tests/lib", "tests/tools"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
