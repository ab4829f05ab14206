#include "tests/formats/format_page.h"
#include "tests/formats/delta/delta_workshop.h"

namespace nxdkit::delta {
namespace {

TEST(FormatPage, OfTheDeltaIsTrue) {
  testing_util::ExpectPageHolds("delta", {"tests/formats/delta", "tests/tools"});
  EXPECT_FALSE(HasFailure());
}

// Files of an earlier version of ours stay readable.
TEST(DeltaTestdata, OfVersion1StillOpens) {
  for (const Coding coding : {Coding::kRaw, Coding::kUlp}) {
    const testing::Models models = testing::SmallModels(coding);
    const auto delta =
        Delta::Open(std::string(NXDKIT_TESTDATA) +
                    (coding == Coding::kRaw ? "/delta/raw.delta" : "/delta/ulp.delta"));
    ASSERT_TRUE(delta.ok()) << delta.error().ToString();
    const auto result = testing::ApplyAll(**delta, models.base);
    ASSERT_TRUE(result.ok()) << result.error().ToString();
    EXPECT_TRUE(*result == models.result);
  }
}

}  // namespace
}  // namespace nxdkit::delta
