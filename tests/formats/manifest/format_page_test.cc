#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

TEST(FormatPage, OfTheManifestIsTrue) {
  testing_util::ExpectPageHolds(
      "manifest", {"tests/formats/manifest", "tests/lib", "tests/formats/ops", "tests/tools"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
