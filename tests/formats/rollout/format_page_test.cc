#include "tests/formats/format_page.h"

namespace nxdkit {
namespace {

TEST(FormatPage, OfRolloutIsTrue) {
  testing_util::ExpectPageHolds("rollout", {"tests/formats/rollout", "tests/formats/models",
                                            "tests/formats/ops", "tests/tools"});
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace nxdkit
