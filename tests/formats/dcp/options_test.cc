// The mesh of ranks, written in words.
#include <gtest/gtest.h>

#include "formats/dcp/options.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::dcp {
namespace {

using testing_util::ExpectError;

TEST(Mesh, IsReadInEitherOrder) {
  for (const auto& [text, dp, tp] :
       {std::tuple{"dp=4,tp=2", 4, 2}, {"tp=2,dp=4", 4, 2}, {"dp=8", 8, 1}, {"tp=3", 1, 3}}) {
    const auto mesh = ParseMesh(text);
    ASSERT_TRUE(mesh.ok()) << mesh.error().ToString();
    EXPECT_EQ(mesh->dp, dp) << text;
    EXPECT_EQ(mesh->tp, tp) << text;
  }
}

TEST(Mesh, IsNothingElse) {
  for (const char* text : {"", ",", "dp=2,", ",dp=2", "dp=2,,tp=2", "dp=2,tp=2,", "dp=2,dp=2",
                           "dp=", "dp=0", "dp=-1", "dp=2 ", "pp=2", "dp=2;tp=2"})
    ExpectError(ParseMesh(text), Errc::kUsage,
                "--mesh: found \"" + std::string(text) + "\", expected dp=N, tp=N or both");
  ExpectError(ParseMesh("dp=1000,tp=1000"), Errc::kUsage,
              "1000 x 1000 ranks are over the limit of 100000");
}

}  // namespace
}  // namespace nxdkit::dcp
