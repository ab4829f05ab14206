#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

TEST(FormatPage, OfDistributedCheckpointsIsTrue) {
  testing_util::ExpectPageHolds(
      "dcp", {"tests/formats/dcp", "tests/formats/kinds", "tests/formats/foreign"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
