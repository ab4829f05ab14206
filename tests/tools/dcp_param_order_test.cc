// --param-order names the order of numbered parameters; a distributed checkpoint has no numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

TEST(DcpParamOrder, IsRefusedBetweenCheckpoints) {
  const Workshop shop;
  const ProcessResult result =
      RunProcess({NXDKIT_TOOLS "/nxd-convert", "--from", "dcp", "--to", "dcp", "--param-order",
                  "one", NXDKIT_TESTDATA "/dcp/one", shop / "out"});
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr("--param-order does not apply to a distributed checkpoint: it "
                                    "has names"));
}

}  // namespace
}  // namespace nxdkit::test
